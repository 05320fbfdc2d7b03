"""kaged plugin test finds what is broken in each mutant of the SDK for Python."""
import mutation
from harness import FlowTest, main


class Mutants(mutation.Python, FlowTest):
    pass


if __name__ == "__main__":
    main()
