#!/usr/bin/env python3
"""Checkpoints on servers: a folder over HTTP and as objects of S3, whose signatures this server computes itself.

    SCALAI_BIN=build/bin remote_test.py [-v]
"""

import hashlib
import hmac
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse

PROGRAM = os.path.join(os.environ.get("SCALAI_BIN", "build/bin"), "scalai")
KEY, SECRET, REGION = "AKID", "top/secret+", "eu-west-1"
HERE = os.path.dirname(os.path.abspath(__file__))


def signature(request):
    """Of a GET as the server got it: Signature Version 4, from Amazon's description."""
    parts = dict(part.strip().split("=", 1) for part in request.headers["Authorization"][len("AWS4-HMAC-SHA256 "):].split(","))
    key, *scope = parts["Credential"].split("/")
    names = parts["SignedHeaders"].split(";")
    canonical = "\n".join(["GET", request.path, "", *(f"{name}:{request.headers[name].strip()}" for name in names), "",
                           ";".join(names), request.headers["x-amz-content-sha256"]])
    text = "\n".join(["AWS4-HMAC-SHA256", request.headers["x-amz-date"], "/".join(scope),
                      hashlib.sha256(canonical.encode()).hexdigest()])
    secret = ("AWS4" + SECRET).encode()
    for word in scope:
        secret = hmac.new(secret, word.encode(), hashlib.sha256).digest()
    return key == KEY and scope[1:] == [REGION, "s3", "aws4_request"] and hmac.compare_digest(
        hmac.new(secret, text.encode(), hashlib.sha256).hexdigest(), parts["Signature"])


class Handler(http.server.BaseHTTPRequestHandler):
    """Files by ranges; those below /bucket only to who signs."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path = self.path
        if path.startswith("/bucket/"):
            if "Authorization" not in self.headers or not signature(self):
                return self.answer(403)
            path = path[len("/bucket"):]
        file = self.server.root + urllib.parse.unquote(path.partition("#")[0].partition("?")[0])
        if not os.path.isfile(file):
            return self.answer(404)
        with open(file, "rb") as opened:
            data = opened.read()
        first, last = (int(number) for number in self.headers["Range"].split("=")[1].split("-"))
        if first >= len(data):
            return self.answer(416, Content_Range=f"bytes */{len(data)}")
        body = data[first: last + 1]
        return self.answer(206, body, Content_Range=f"bytes {first}-{first + len(body) - 1}/{len(data)}",
                           ETag=f'"{hashlib.md5(data).hexdigest()}"')


class Remote(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.root = self.folder
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        for name in ("model", "my model"):
            subprocess.run([sys.executable, os.path.join(HERE, "make_tiny.py"), "llama", self.path(name)], check=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def reshard(self, source, target, *options, **environment):
        known = dict(AWS_ENDPOINT_URL=self.url, AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION=REGION,
                     no_proxy="127.0.0.1")
        return subprocess.run([PROGRAM, "checkpoint", "reshard", source, self.path(target), "-q", *options],
                              capture_output=True, text=True, env={**os.environ, **known, **environment})

    def assert_back(self, source, target, *options):
        done = self.reshard(source, target, "--to=hf", "--verify", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("model/model.safetensors"), "rb") as one, open(
                self.path(target + "/model.safetensors"), "rb") as other:
            self.assertEqual(one.read(), other.read())

    def test_hugging_face(self):
        self.assert_back(self.url + "/model", "a")
        self.assert_back("s3://bucket/model", "b")
        self.assert_back("s3://bucket/my model", "c")
        with open(self.path("model/tokenizer.json"), "w") as file:
            file.write("{}")
        self.assert_back("s3://bucket/model", "d")
        with open(self.path("d/tokenizer.json")) as file:
            self.assertEqual(file.read(), "{}")

    def test_names_that_an_address_reads_otherwise(self):
        """Each has the file of its own name, although the server has another one where its name is taken as an address."""
        names = ("a#1.safetensors", "b%63.safetensors", "c?v=1.safetensors", "d e.safetensors", "\u00e4.safetensors")
        self.assertEqual(self.reshard(self.path("model"), "odd", "--to=hf", "--shard-size=60kB").returncode, 0)
        os.remove(self.path("odd/manifest.json"))
        with open(self.path("odd/model.safetensors.index.json")) as file:
            index = json.load(file)
        files = sorted(set(index["weight_map"].values()))
        self.assertGreaterEqual(len(files), len(names))
        renamed = dict(zip(files, names))
        for old, new in renamed.items():
            os.rename(self.path("odd/" + old), self.path("odd/" + new))
        for decoy in ("a", "bc.safetensors", "c"):
            shutil.copy(self.path("odd/" + names[-1]), self.path("odd/" + decoy))
        index["weight_map"] = {tensor: renamed.get(file, file) for tensor, file in index["weight_map"].items()}
        with open(self.path("odd/model.safetensors.index.json"), "w") as file:
            json.dump(index, file)
        for number, place in enumerate((self.url + "/odd", "s3://bucket/odd")):
            self.assert_back(place, f"odd-back{number}")

    def test_what_reshard_wrote(self):
        for layout in ("tp2,pp2", "torch_dist", "dcp"):
            self.assertEqual(self.reshard(self.path("model"), layout, "--to=" + layout).returncode, 0)
            self.assert_back("s3://bucket/" + layout, layout + "-back")
            if layout != "tp2,pp2":
                os.remove(self.path(layout + "/manifest.json"))
                self.assert_back("s3://bucket/" + layout, layout + "-again")
        self.assertEqual(self.reshard(self.path("model"), "ranks", "--to=tp2,pp2").returncode, 0)
        os.remove(self.path("ranks/manifest.json"))
        self.assert_back(self.url + "/ranks", "ranks-back", "--from=tp2,pp2")

    def test_who_may_not_read(self):
        for case in ({"AWS_SECRET_ACCESS_KEY": "other"}, {"AWS_ACCESS_KEY_ID": ""}):
            done = self.reshard("s3://bucket/model", "x", "--to=hf", **case)
            self.assertEqual(done.returncode, 4)
            self.assertIn("s3://bucket/model/model.safetensors: the server answered 403", done.stderr)
            self.assertNotIn(SECRET, done.stderr)
        done = self.reshard("http://user:word@127.0.0.1/model", "x", "--to=hf")
        self.assertEqual(done.returncode, 3)
        self.assertNotIn("word", done.stderr)
        self.assertEqual(self.reshard("ftp://somewhere/model", "x", "--to=hf").returncode, 3)
        self.assertFalse([name for name in os.listdir(self.folder) if name.startswith("x")])


if __name__ == "__main__":
    unittest.main()
