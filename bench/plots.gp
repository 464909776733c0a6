# SPDX-License-Identifier: MIT OR Apache-2.0
# Plots of the medians that report.py wrote to `directory`.

set terminal svg noenhanced size 900,420 font "sans-serif,12" background "white"
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

# name: of the section's medians and of the plot
plot_of(name) = sprintf("set output '%s/%s.svg'; plot for [i = 2:%d] '%s' using i:xtic(1) title columnheader(i) linecolor rgb colour[i - 1]", directory, name, columns(name), file(name))
has(name) = system("test -s '".file(name)."' && echo 1 || echo 0") + 0

set ylabel "nanoseconds a call"
if (has("calls")) { eval plot_of("calls") }
set ylabel "instructions a call, with loop and provider"
if (has("instructions")) { eval plot_of("instructions") }
# A trace writes a line, the others count.
set logscale y
set yrange [1:*]
set ylabel "nanoseconds more than without"
if (has("preload")) { eval plot_of("preload") }
unset logscale y
set yrange [0:*]

set key off
set ylabel "microseconds until all are done"
if (has("stack-until-done")) { eval plot_of("stack-until-done") }
