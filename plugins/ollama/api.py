"""One request to an Ollama server. The server is not trusted: whatever it sends is bounded in size
and in time, and ends in an answer or in an error that says what to do next.

In the cage the server is reached by plain TCP. Where it is down, the connection is made all the
same and closed without an answer.
"""
import http.client
import json
import socket
import threading
import time

from kaged_sdk import PluginError
from kaged_sdk.errors import RESOURCE_BUSY

ANSWER_MAX = 2 << 20  # bytes: licences are long; and JSON takes twenty times that in memory
HEAD_MAX = 256 << 10
LINE_MAX = 64 << 10
FRAMES = 128 << 10  # what may come beside a body or a line: sizes of chunks, and the next buffer
AT_ONCE_MAX = 4  # requests, pulls not counted
DIGITS_MAX = 30  # of a number; reading a longer one takes time that grows with its square


class Trouble(PluginError):
    """What failed, why, and what to do next."""

    def __init__(self, what, why, todo, status=None):
        data = {"hint": todo} if status is None else {"hint": todo, "status": status}
        super().__init__(f"{what}: {why}; {todo}", data=data)


def text(value, most):
    """What the server says, fit to be shown: no controls, no half characters, not too long."""
    if not isinstance(value, str):
        return ""
    shown = "".join(c if c.isprintable() or c == "\n" else " " for c in value[:most])
    return shown if len(value) <= most else shown + "..."


def integer(value):
    return value if type(value) is int and 0 <= value < 1 << 63 else 0


def _number(digits):
    return int(digits) if len(digits) <= DIGITS_MAX else 0


def _refuse(constant):
    raise ValueError(f"{constant} is no number")


def parse(body):
    """An object, or ValueError."""
    try:
        value = json.loads(body, parse_int=_number, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


class TooMuch(OSError):
    """More bytes than an answer may have."""


class BoundedSocket(socket.socket):
    """All reads share one time and one number of bytes: neither a drip nor a flood gets past them.

    The bound is here since http.client has holes: it reads a chunk of size -1 to its end.
    """

    deadline, allowance = 0.0, 0

    def recv_into(self, *arguments):
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise socket.timeout("timed out")
        if self.allowance <= 0:
            raise TooMuch("more than was allowed")
        self.settimeout(left)
        count = super().recv_into(*arguments)
        self.allowance -= count
        return count


class Exchange:
    """A request and its answer, to be closed; abort() may come from another thread."""

    def __init__(self, host, port, what):
        self.host, self.port, self.what = host, port, what
        self.seconds = self.most = 0  # that were allowed last
        self._socket = self._connection = self._response = None
        self._aborted = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for part in (self._response, self._connection):
            if part is not None:
                part.close()

    def abort(self):
        self._aborted = True
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # closed already

    def _allow(self, seconds, most):
        """For all that is read from now on."""
        self.seconds, self.most = seconds, most
        self._socket.deadline = time.monotonic() + seconds
        self._socket.allowance = most + FRAMES

    # -- the ways of an answer

    def send(self, method, path, seconds, body=None):
        """Sends, and reads the head of the answer; an error of the server is raised."""
        self.seconds = seconds
        try:
            self._connect(seconds)
            payload = None if body is None else json.dumps(body)
            self._connection.request(method, path, payload, {"Content-Type": "application/json"})
            self._response = self._connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise self.explain(error) from None
        if self._response.status != 200:
            raise self._explain_status()

    def _connect(self, seconds):
        plain = socket.create_connection((self.host, self.port), min(seconds, 10))
        self._socket = BoundedSocket(fileno=plain.detach())
        self._connection = http.client.HTTPConnection(self.host, self.port)
        self._connection.sock = self._socket
        self._allow(seconds, HEAD_MAX)
        self._socket.settimeout(seconds)
        if self._aborted:
            self.abort()

    def body(self, most=ANSWER_MAX):
        """All of it, in the time that send() was given."""
        self.most, self._socket.allowance = most, most + FRAMES
        try:
            body = self._response.read(most + 1)
            if len(body) > most:
                raise TooMuch
        except (OSError, http.client.HTTPException) as error:
            raise self.explain(error) from None
        return body

    def value(self):
        """The whole answer, a JSON object."""
        try:
            return parse(self.body())
        except ValueError as error:
            raise self._not_json(error) from None

    def lines(self, silence):
        """The objects of an answer of lines, each within `silence` seconds of the one before."""
        while True:
            self._allow(silence, LINE_MAX)
            try:
                line = self._response.readline(LINE_MAX + 1)
                if len(line) > LINE_MAX:
                    raise TooMuch
            except (OSError, http.client.HTTPException) as error:
                raise self.explain(error) from None
            if not line:
                return
            if line.isspace():
                continue
            try:
                yield parse(line)
            except ValueError as error:
                raise self._not_json(error) from None

    # -- words

    def trouble(self, why, todo, status=None):
        return Trouble(self.what, why, todo, status)

    @property
    def _place(self):
        return f"{self.host}:{self.port}"

    def _other_server(self):
        return f"see what listens at {self._place}: it does not speak as Ollama does"

    def _not_json(self, error):
        return self.trouble(f"the answer is not JSON as Ollama sends it ({text(str(error), 100)})",
                            self._other_server())

    def explain(self, error):
        """The words for what went wrong on the way."""
        declare = f"the manifest has to declare net:{self._place}"
        if isinstance(error, socket.timeout):
            return self.trouble(f"nothing came from {self._place} for {self.seconds} s",
                                "see whether Ollama is busy, then try again")
        if isinstance(error, TooMuch):
            return self.trouble(f"the answer, or a part of it, has more than {self.most} bytes",
                                self._other_server())
        if isinstance(error, socket.gaierror):
            return self.trouble(f"the name {self.host} is not known here", declare)
        if isinstance(error, (ConnectionError, http.client.RemoteDisconnected)):
            return self.trouble(f"Ollama does not answer at {self._place}",
                                "start it (ollama serve), or set host and port to where it is; "
                                + declare)
        if isinstance(error, http.client.HTTPException):
            return self.trouble(f"the answer is not HTTP ({type(error).__name__})",
                                self._other_server())
        return self.trouble(text(str(error), 200), declare)

    def _explain_status(self):
        response = self._response
        status = response.status
        if 300 <= status < 400:
            place = text(response.getheader("Location") or "elsewhere", 200)
            return self.trouble(f"the server sends us to {place}, and we do not follow",
                                "set host and port to the Ollama server itself", status)
        try:
            words = text(parse(self.body(LINE_MAX)).get("error"), 300)
        except (ValueError, PluginError):
            words = ""
        why = f"Ollama says {words!r}" if words else f"the server answers with status {status}"
        if status == 404:
            todo = "models.list shows the models that are there, models.pull gets others"
        elif status >= 500:
            todo = "look into the log of Ollama"
        else:
            todo = "see whether this version of Ollama is too old or too new"
        return self.trouble(why, todo, status)


_turns = threading.BoundedSemaphore(AT_ONCE_MAX)


def ask(settings, what, method, path, body=None):
    """The JSON object that the server answers with."""
    if not _turns.acquire(timeout=settings.request_timeout_sec):
        raise PluginError(f"{what}: {AT_ONCE_MAX} requests wait for Ollama already; try again",
                          RESOURCE_BUSY)
    try:
        with Exchange(settings.host, settings.port, what) as exchange:
            exchange.send(method, path, settings.request_timeout_sec, body)
            return exchange.value()
    finally:
        _turns.release()
