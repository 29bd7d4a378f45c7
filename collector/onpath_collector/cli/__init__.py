"""The collector's commands, found by `onpath` through entry points."""

import os

# gRPC writes lines of its own to standard error; whatever matters in them reaches the log as an error of ours. It looks
# at this when it is imported, which the commands here do.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
