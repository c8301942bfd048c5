"""The floor of a submission: one POST and nothing else. Prints when it was sent and the application
that came of it.
"""

import json
import sys
import time
import urllib.request

url, user, path = sys.argv[1:]
with open(path, "rb") as file:  # noqa: PTH123 - the shortest program that does it
    body = file.read()
request = urllib.request.Request(
    f"{url}/app/v1/services?user.name={user}", body, {"Content-Type": "application/json"}
)
sent = time.time()
with urllib.request.urlopen(request, timeout=120) as answer:
    print(json.dumps({"sent": sent, "uri": json.load(answer).get("uri")}))
