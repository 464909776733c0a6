# SPDX-License-Identifier: MIT OR Apache-2.0
"""usage: report.py RESULTS.csv DIRECTORY

Prints the results as Markdown tables: a row for each case, a column for each variant,
the median and in brackets the quartiles. Writes the medians of each section to
DIRECTORY/SECTION.dat for the plots.
"""

import csv
import re
import sys


def number(text):
    """Three digits, or all before the point."""
    value = float(text)
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def cell(row):
    _, _, _, _, median, low, high = row
    if low == high:
        return number(median)
    return f"{number(median)} ({number(low)}-{number(high)})"


def sections(path):
    """Title -> ((case, variant) -> row), in the order of the file."""
    found = {}
    with open(path, newline="", encoding="ascii") as file:
        for row in csv.reader(file):
            section, case, variant, unit = row[:4]
            title = section if unit == section else f"{section}, {unit}"
            if section.startswith("stack"):  # each work has ways of its own
                case, variant = f"{case}: {variant}", unit
            found.setdefault(title, {})[case, variant] = row
    return {
        title: dict(sorted(cells.items())) if title.startswith("stack") else cells
        for title, cells in found.items()
    }


def names(cells, place):
    return list(dict.fromkeys(key[place] for key in cells))


def print_table(title, cells):
    variants = names(cells, 1)
    print(f"\n### {title}\n")
    print("| | " + " | ".join(variants) + " |")
    print("|---|" + "---:|" * len(variants))
    for case in names(cells, 0):
        values = [cells.get((case, variant)) for variant in variants]
        print(f"| {case} | " + " | ".join(cell(v) if v else "" for v in values) + " |")


def write_medians(path, cells):
    variants = names(cells, 1)
    with open(path, "w", encoding="ascii") as file:
        print('"case"', *(f'"{variant}"' for variant in variants), file=file)
        for case in names(cells, 0):
            medians = (cells.get((case, variant)) for variant in variants)
            print(f'"{case}"', *(row[4] if row else "NaN" for row in medians), file=file)


def main():
    for title, cells in sections(sys.argv[1]).items():
        print_table(title, cells)
        name = re.sub(r"[^a-z]+", "-", title.split(",")[0]).strip("-")
        write_medians(f"{sys.argv[2]}/{name}.dat", cells)


main()
