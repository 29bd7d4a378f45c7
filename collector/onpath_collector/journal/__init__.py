"""What must survive a crash: requests that were acknowledged and are not yet settled, in SQLite, one row a request.

event loop: Journal -> thread: Writer (group commit) -> Store (tables) -> Directory (lock, damage, reserve)
start:      Directory -> sound, or salvaged row by row -> Contents -> brought back by the service

requests    what a sender was told is taken; gone when its traces are settled and the downstream has it
forwarded   those that the downstream has, of which a trace is still open
endings     how traces were released, until settled; then what is remembered of them, for late spans
"""

from onpath_collector.journal.core import Closing, Full, Journal, JournalSettings
from onpath_collector.journal.directory import JournalError
from onpath_collector.journal.records import Contents, Ending, Request

__all__ = ["Closing", "Contents", "Ending", "Full", "Journal", "JournalError", "JournalSettings", "Request"]
