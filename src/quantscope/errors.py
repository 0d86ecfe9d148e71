"""The errors that a person can act on. Each says what was wrong, what was found and what to do."""


class QuantscopeError(Exception):
    """Something a person can put right. The command line prints it as one line and exits 2."""


class BadModelError(QuantscopeError):
    """A file that is not the model it should be."""


class BadDataError(QuantscopeError):
    """Images or labels that are missing, damaged or do not fit the model."""


class BadConfigError(QuantscopeError):
    """Options that cannot be combined, or values outside their range."""


TORCH_INSTALL = "pip install 'quantscope[torch]'"
"""The command that installs what PyTorch models need, for the errors that propose it."""


class MissingExtraError(QuantscopeError):
    """An optional dependency that is not installed; says the command that installs it."""


class StoppedError(QuantscopeError):
    """Long work that was asked to stop. What it had finished is kept."""
