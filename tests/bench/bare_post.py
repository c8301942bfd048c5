"""The floor of a submission: one POST, then a look each second until YARN has ended the application.
Prints when the POST was sent, and when the end was seen.
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
name, sent = json.loads(body)["name"], time.time()
urllib.request.urlopen(request, timeout=120).close()
query = f"{url}/ws/v1/cluster/apps?user.name={user}&user={user}&applicationTags=name:%20{name}"
while True:
    with urllib.request.urlopen(query, timeout=30) as answer:
        apps = (json.load(answer).get("apps") or {}).get("app", [])
    if any(app["finalStatus"] != "UNDEFINED" for app in apps):
        break
    time.sleep(1)
print(json.dumps({"sent": sent, "seen": time.time()}))
