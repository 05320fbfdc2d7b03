"""kaged plugin test finds what is broken in each mutant of the SDK for C."""
import mutation
from harness import FlowTest, main


class Mutants(mutation.C, FlowTest):
    pass


if __name__ == "__main__":
    main()
