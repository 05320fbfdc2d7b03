"""The node that has an orchestrator is killed again and again, while others talk with it from all sides: nothing that
was answered is lost, and somebody answers again. The counts are printed."""
import os
import time

from harness import main, wait_for
from test_nodes import Nodes, Talk

ROUNDS = 200 if os.environ.get("KAGED_TEST_LONG") else 3


class Killed(Nodes):
    def test_nothing_that_was_answered_is_lost_when_holders_are_killed(self):
        instance = self.world.orchestrator("Unkillable")
        talks = [Talk(self.world, instance, f"t{number}") for number in range(3)]
        times = []
        for talk in talks:
            talk.wait_answers(2)
        for _ in range(ROUNDS):
            wait_for(lambda: self.world.holder(instance) is not None, "a holder")
            node = self.world.holder(instance)
            started = time.monotonic()
            node.kill()
            for talk in talks:
                talk.wait_answers(1)
            times.append(time.monotonic() - started)
            node.start()
        answered = sum(talk.end() for talk in talks)
        attempts = sum(talk.attempts for talk in talks)
        epoch = self.world.ask(f"SELECT epoch FROM kaged.lease WHERE name = 'orchestrator-{instance}'")[0][0]
        self.assertGreater(int(epoch), ROUNDS)
        print(f"# {ROUNDS} kills of the holder: {answered} of {attempts} messages were answered, all of these are there, "
              f"once and in order; lease epoch {epoch}; answers again after {sorted(times)[len(times) // 2]:.1f} s "
              f"(median), {max(times):.1f} s at most")


if __name__ == "__main__":
    main()
