# Turns each line of an .sql file into a C string literal; the compiler joins them.
s/["\\]/\\&/g
s/.*/"&\\n"/
