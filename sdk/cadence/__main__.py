"""python3 -I -B FOLDER discover|run ...: the folder of this file is on the path by that."""
import sys

from kaged_runner.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
