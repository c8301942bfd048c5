"""For every test: Ctrl-C means something.

A shell without job control starts what runs in the background with SIGINT ignored, and every child inherits that.
"""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
