"""How often logs are asked for, by a clock that stands still until it is moved."""

from __future__ import annotations

from runspec_azure.timing import PollScheduler


class Logs:
    """Logs that are asked as a follower does, one pass every second."""

    def __init__(self, count: int, calls: int = 1) -> None:
        self.now_s, self.asked, self.calls = 0.0, 0, calls
        self.turns = PollScheduler(2.0, lambda: self.now_s)
        self.names = range(count)
        self.prints: set[int] = set()
        self.marks = dict.fromkeys(self.names, "0")

    def look(self) -> list[int]:
        """Give which logs are asked now; those that print have something."""
        found = []
        for name in self.names:
            if not self.turns.due(name, self.marks[name]):
                continue
            found.append(name)
            over = self.marks[name] == "over"
            new = name in self.prints
            self.turns.note(name, self.marks[name], new=new, calls=self.calls, last=over)
            if new:
                self.turns.note(name, self.marks[name], new=False, calls=self.calls)
        return found

    def minute(self) -> int:
        """Give the calls of a minute after the first look."""
        calls = 0
        for _ in range(60):
            self.now_s += 1.0
            calls += len(self.look()) * self.calls
        return calls


def test_many_quiet_logs_cost_what_one_costs() -> None:
    costs = []
    for count, calls in ((1, 1), (8, 1), (50, 1), (4, 2)):
        logs = Logs(count, calls)
        logs.look()
        assert logs.minute() + logs.minute() <= 60
        costs.append(logs.minute())

    assert costs[0] == 30
    assert all(20 <= cost <= 30 for cost in costs)


def test_quiet_logs_are_asked_in_turn_and_not_all_at_once() -> None:
    logs = Logs(8)
    logs.look()
    logs.now_s += 1000.0

    turns = []
    for _ in range(16):
        turns += logs.look()
        logs.now_s += 2.0

    assert turns == [*range(8), *range(8)]


def test_a_busy_log_does_not_wait_for_the_quiet_ones() -> None:
    logs = Logs(50)
    logs.prints = {7}
    logs.look()

    logs.now_s += 2.0

    assert logs.look() == [7]
    logs.prints = set()
    moments = []
    for _ in range(40):
        logs.now_s += 1.0
        moments += [logs.now_s] if 7 in logs.look() else []
    assert moments == [4.0, 8.0, 16.0, 32.0]


def test_a_log_whose_task_has_moved_on_is_asked_at_once_and_once_after_its_end() -> None:
    logs = Logs(50)
    logs.look()

    logs.marks[3] = "over"

    assert logs.look() == [3]
    logs.now_s += 1000.0
    asked = set()
    for _ in range(200):
        logs.now_s += 1.0
        asked |= set(logs.look())
    assert asked == set(logs.names) - {3}


def test_a_log_with_new_output_is_read_again_at_once() -> None:
    turns = PollScheduler(2.0, lambda: 0.0)

    turns.note("log", "0 running", new=True)
    again = turns.due("log", "0 running")
    turns.note("log", "5 running", new=False)

    assert again
    assert not turns.due("log", "5 running")
