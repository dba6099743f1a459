"""Is a broker or a worker in this container well? `healthcheck.py https://localhost:8420/healthz`

Exits with 0 if it is. The image has no curl, and bucketq's own commands would need a token.
"""

import http.client
import os
import ssl
import sys
from urllib.parse import urlsplit

url = urlsplit(sys.argv[1])
if url.scheme == "https":
    trusted = ssl.create_default_context(cafile=os.environ.get("BUCKETQ_CA"))
    connection = http.client.HTTPSConnection(url.netloc, timeout=3, context=trusted)
else:
    connection = http.client.HTTPConnection(url.netloc, timeout=3)
connection.request("GET", url.path)
sys.exit(connection.getresponse().status != 200)
