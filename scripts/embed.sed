# Turns each line of a file into a C string literal; the compiler joins them.
s/["\\]/\\&/g
s/.*/"&\\n"/
