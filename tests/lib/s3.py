"""A server of S3 that believes nobody: each request's signature (SigV4) and the hash of its body are computed anew.
Faults can be switched on, and what it holds can be changed behind its clients' backs."""
import hashlib
import hmac
import http.server
import threading
import time
import urllib.parse

ACCESS, SECRET, REGION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "eu-test-1"
SKEW_SEC = 15 * 60


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Refusal(Exception):
    def __init__(self, status, code):
        super().__init__(code)
        self.status, self.code = status, code


def canonical_query(query):
    pairs = sorted(urllib.parse.parse_qsl(query, keep_blank_values=True))
    return "&".join(f"{urllib.parse.quote(k, safe='-_.~')}={urllib.parse.quote(v, safe='-_.~')}" for k, v in pairs)


def check_signature(method, target, headers, secret, access=ACCESS, now=None):
    """Raises a Refusal, as S3 itself answers, unless the request was signed with the secret."""
    given = headers.get("Authorization", "")
    if not given.startswith("AWS4-HMAC-SHA256 "):
        raise Refusal(403, "AccessDenied")
    fields = dict(part.strip().split("=", 1) for part in given[len("AWS4-HMAC-SHA256 "):].split(","))
    who, day, region, service, last = fields["Credential"].split("/")
    if who != access:
        raise Refusal(403, "InvalidAccessKeyId")
    if (region, service, last) != (REGION, "s3", "aws4_request"):
        raise Refusal(400, "AuthorizationHeaderMalformed")
    stamp, content = headers.get("x-amz-date", ""), headers.get("x-amz-content-sha256")
    signed = fields["SignedHeaders"].split(";")
    if content is None or not {"host", "x-amz-date", "x-amz-content-sha256"} <= set(signed):
        raise Refusal(403, "AccessDenied")
    then = time.mktime(time.strptime(stamp, "%Y%m%dT%H%M%SZ")) - time.timezone
    if abs(then - (now if now is not None else time.time())) > SKEW_SEC or not stamp.startswith(day):
        raise Refusal(403, "RequestTimeTooSkewed")
    path, _, query = target.partition("?")
    canonical = "\n".join([method, path, canonical_query(query)] +
                          [f"{name}:{' '.join(headers.get(name, '').split())}" for name in signed] +
                          ["", ";".join(signed), content])
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, "/".join([day, region, service, last]),
                      hashlib.sha256(canonical.encode()).hexdigest()])
    key = sign(sign(sign(sign(b"AWS4" + secret.encode(), day), region), service), last)
    if not hmac.compare_digest(hmac.new(key, text.encode(), hashlib.sha256).hexdigest(), fields["Signature"]):
        raise Refusal(403, "SignatureDoesNotMatch")
    return content


def signed(method, host, path, access, secret):
    """Headers of a request without a body."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    scope = "/".join([stamp[:8], REGION, "s3", "aws4_request"])
    names, empty = "host;x-amz-content-sha256;x-amz-date", hashlib.sha256(b"").hexdigest()
    canonical = "\n".join([method, path, "", f"host:{host}", f"x-amz-content-sha256:{empty}", f"x-amz-date:{stamp}", "",
                           names, empty])
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = b"AWS4" + secret.encode()
    for part in scope.split("/"):
        key = sign(key, part)
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return {"Host": host, "x-amz-content-sha256": empty, "x-amz-date": stamp, "Authorization":
            f"AWS4-HMAC-SHA256 Credential={access}/{scope}, SignedHeaders={names}, Signature={signature}"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", length=None):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def date_time_string(self, timestamp=None):
        return super().date_time_string(time.time() + self.server.clock_sec)

    def serve(self):
        server = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with server.lock:
            server.requests.append((self.command, self.path, dict(self.headers)))
        fault = server.fault
        if fault is not None and fault(self, body):
            return
        try:
            content = check_signature(self.command, self.path, self.headers, server.secret,
                                      now=time.time() + server.clock_sec)
            if content != "UNSIGNED-PAYLOAD" and content != hashlib.sha256(body).hexdigest():
                raise Refusal(400, "XAmzContentSHA256Mismatch")
            self.do_act(body)
        except Refusal as refusal:
            self.answer(refusal.status, f'<?xml version="1.0"?><Error><Code>{refusal.code}</Code>'
                                        f"<Message>no</Message></Error>".encode())

    def do_act(self, body):
        objects, key = self.server.objects, self.path.lstrip("/")
        if self.command in self.server.refused:
            raise Refusal(403, "AccessDenied")
        if self.command == "PUT":
            objects[key] = body
            self.answer(200)
        elif self.command == "DELETE":
            objects.pop(key, None)
            self.answer(204)
        elif key not in objects:
            raise Refusal(404, "NoSuchKey")
        else:
            self.answer(200, objects[key])

    do_GET = do_PUT = do_DELETE = do_HEAD = do_POST = serve


class S3(http.server.ThreadingHTTPServer):
    """objects: what is in it, by BUCKET/KEY. fault(handler, body): true if it answered in its own way."""

    daemon_threads = True

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.lock, self.requests, self.objects = threading.Lock(), [], {}
        self.secret, self.fault, self.refused, self.clock_sec = SECRET, None, set(), 0
        self.port = self.server_address[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # clients that leave are part of the tests

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def methods(self):
        return [method for method, _, _ in self.requests]


def config(server, **more):
    return {"cluster.bucket": "s3://packages/kaged/one", "cluster.endpoint": server.endpoint,
            "cluster.region": REGION, **more}


def local(access=ACCESS, secret="${secret:bucket}"):
    return f'[services.bucket]\naccess_key = "{access}"\nsecret_key = "{secret}"\n'
