"""Azure SDK clients, clouds, and logins."""

import logging

# The SDKs log a traceback for every refusal without a body, such as answers to HEAD, and each login that is not there;
# without a handler, Python would print that to standard error. runspec prints a message.
logging.getLogger("azure").addHandler(logging.NullHandler())
