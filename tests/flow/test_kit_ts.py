"""kaged plugin test finds what is broken in each mutant of the SDK for TypeScript."""
import mutation
from harness import FlowTest, main


class Mutants(mutation.TypeScript, FlowTest):
    pass


if __name__ == "__main__":
    main()
