# SPDX-License-Identifier: MIT OR Apache-2.0
# Plots of the medians that report.py wrote to `directory`.

set terminal svg size 900,420 font "sans-serif,12" background "white"
set style data histograms
set style fill solid 0.85 noborder
set grid ytics linecolor "#dddddd"
set border 3
set xtics nomirror
set ytics nomirror
set yrange [0:*]
set key outside top center horizontal

# Colours that can be told apart without red and green.
array colour[8] = ["#999999", "#56b4e9", "#0072b2", "#e69f00", "#d55e00", "#cc79a7", "#000000", "#f0e442"]
file(name) = directory."/".name.".dat"
columns(name) = int(system("head -n 1 '".file(name)."' | grep -o '\"[^\"]*\"' | wc -l"))
set datafile missing "NaN"

set style histogram clustered gap 1.5
set xtics rotate by 35 right

set output directory."/calls.svg"
set ylabel "nanoseconds a call"
plot for [i = 2:columns("calls")] file("calls") using i:xtic(1) title columnheader(i) linecolor rgb colour[i - 1]

set output directory."/instructions.svg"
set ylabel "instructions a call, loop and provider included"
plot for [i = 2:columns("instructions")] file("instructions") using i:xtic(1) title columnheader(i) linecolor rgb colour[i - 1]
