"""Who may connect, and how that is known: certificates and tokens, from files, read again when these change."""

from onpath_collector.security.certificates import Certificates
from onpath_collector.security.files import SecretError, Watched, read_secret, refresh_for_ever
from onpath_collector.security.tokens import Tokens

__all__ = ["Certificates", "SecretError", "Tokens", "Watched", "read_secret", "refresh_for_ever"]
