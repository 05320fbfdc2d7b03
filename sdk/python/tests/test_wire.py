"""Lines and JSON, as strictly as the daemon reads them."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from kaged_sdk import wire  # noqa: E402


def read_lines(*chunks):
    rest = list(chunks)
    return list(wire.lines(lambda: rest.pop(0) if rest else b""))


class Lines(unittest.TestCase):
    def test_pieces_are_put_together(self):
        self.assertEqual(read_lines(b"a", b"b\nc\n\n", b"d", b"\ne"), [b"ab", b"c", b"", b"d"])

    def test_a_line_that_is_too_long_is_told_once_and_passed_over(self):
        most = b"x" * wire.LINE_MAX
        self.assertEqual(read_lines(most, b"\n"), [most])
        self.assertEqual(read_lines(most, b"y", b"z" * 100, b"z\nnext\n"), [wire.TOO_LONG, b"next"])
        self.assertEqual(read_lines(most + b"y\nnext\n"), [wire.TOO_LONG, b"next"])


class Json(unittest.TestCase):
    def test_what_the_daemon_refuses_is_refused(self):
        for line in (b"NaN", b"[1,]", b"01", b'"\\ud800"', b'"\xff"', b'"\t"', b"\xef\xbb\xbf1",
                     b"", b"[" * 257 + b"]" * 257, b"[" * 100000, b"1 2"):
            with self.subTest(line[:20]), self.assertRaises(wire.NotJson):
                wire.parse(line)

    def test_depth_is_counted_outside_of_strings(self):
        self.assertEqual(len(wire.parse(b'["' + b"[{" * 500 + b'\\"[[["]')), 1)
        self.assertEqual(len(wire.parse(b"[" + b"[]," * 1000 + b"1]")), 1001)
        wire.parse(b"[" * 256 + b"]" * 256)

    def test_numbers_of_thousands_of_digits_are_read(self):
        self.assertEqual(wire.parse(b"[" + b"9" * 6000 + b"]"), [float("inf")])

    def test_only_what_fits_a_line_goes_out(self):
        frame = len(b'{"a":""}')
        self.assertEqual(len(wire.dump({"a": "x" * (wire.LINE_MAX - frame)})), wire.LINE_MAX + 1)
        with self.assertRaises(wire.NotJson):
            wire.dump({"a": "x" * (wire.LINE_MAX - frame + 1)})


if __name__ == "__main__":
    unittest.main()
