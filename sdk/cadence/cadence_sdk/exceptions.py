"""What packages raise."""


class CadenceException(Exception):
    """The base of errors with a code; its text is what the caller reads."""

    def __init__(self, message="", code=None, details=None):
        super().__init__(message)
        self.message = message
        self.code = code
        self.details = details if details is not None else {}
