"""A headless Chromium that opens pages as a curator would, and a web page that attacks what listens here."""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from answering import answering
from websockets.sync.client import connect

from audit.look import FLAGS, chromium

PATIENCE = 180.0
ELSEWHERE = "evil.example"  # it is led to this machine, as rebinding a name does
ASKS = """
async targets => {
  const got = [];
  const limit = work => Promise.race([work, new Promise(r => setTimeout(() => r(null), 20000))]);
  for (const t of targets) {
    for (const mode of ["cors", "no-cors"]) {
      try {
        const typed = t.body && mode == "cors" ? {"Content-Type": "application/json"} : {};
        const answer = await fetch(t.url, {method: t.method, body: t.body, mode, headers: typed,
                                           credentials: "include"});
        if (answer.ok && (await answer.text()).length) got.push(`${mode} ${t.method} ${t.url}`);
      } catch (refused) {}
    }
    if (t.method == "GET") {
      const picture = await limit(new Promise(r => {
        const img = new Image(); img.onload = () => r(img.naturalWidth); img.onerror = () => r(null);
        img.src = t.url;
      }));
      if (picture) got.push(`picture ${t.url}`);
      const text = await limit(new Promise(r => {
        const frame = document.createElement("iframe");
        frame.onload = () => { try { r(frame.contentDocument.body.innerText) } catch (other) { r(null) } };
        frame.src = t.url; document.body.append(frame);
      }));
      if (text && !/own address|Unauthorized/.test(text)) got.push(`frame ${t.url}`);
    } else {
      const form = document.createElement("form"), name = "sink" + got.length + Math.random();
      const frame = document.createElement("iframe"); frame.name = name; document.body.append(frame);
      form.method = t.method; form.action = t.url; form.target = name; form.enctype = "text/plain";
      const field = document.createElement("input"); field.name = (t.body || "{}").slice(0, -1) + ',"a":"';
      field.value = '"}'; form.append(field); document.body.append(form);
      await limit(new Promise(r => { frame.onload = r; form.submit(); }));
    }
  }
  return got;
}
"""
SOCKETS = """
async places => {
  const got = [];
  for (const place of places) {
    const opened = await new Promise(r => {
      const socket = new WebSocket(place); socket.onopen = () => r(true); socket.onerror = () => r(false);
      setTimeout(() => r(false), 20000);
    });
    if (opened) got.push(place);
  }
  return got;
}
"""


@dataclass
class Browser:
    """One tab, and the cookies of all that it opened."""

    socket: Any
    _number: int = 0

    def _ask(self, method: str, **words: Any) -> dict[str, Any]:
        self._number += 1
        self.socket.send(json.dumps({"id": self._number, "method": method, "params": words}))
        while True:
            answer = json.loads(self.socket.recv(timeout=PATIENCE))
            if answer.get("id") == self._number:
                return dict(answer.get("result", {}))

    def run(self, script: str) -> Any:
        """What an expression of the page's, awaited, comes to."""
        answer = self._ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    def open(self, url: str) -> str:
        """Go to a page; what can be read on it."""
        self._ask("Page.navigate", url=url)
        end = time.monotonic() + PATIENCE
        while self.run("document.readyState") != "complete" or self.run("location.href") == "about:blank":
            if time.monotonic() > end:
                raise TimeoutError(url)
            time.sleep(0.1)
        return str(self.run("document.body ? document.body.innerText : ''"))

    def attack(self, targets: list[dict[str, Any]], sockets: list[str]) -> list[str]:
        """What the page that is open could read of the targets, or was let into."""
        asks = self.run(f"({ASKS})({json.dumps(targets)})")
        return [*asks, *self.run(f"({SOCKETS})({json.dumps(sockets)})")]


@contextmanager
def browser() -> Iterator[Browser]:
    """A Chromium of its own, for which every name of ELSEWHERE is this machine."""
    program = chromium()
    assert program is not None
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        rules = f"MAP {ELSEWHERE} 127.0.0.1"
        words = [program, *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-port=0",
                 f"--host-resolver-rules={rules}", "about:blank"]  # fmt: skip
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            told, end = Path(profile) / "DevToolsActivePort", time.monotonic() + PATIENCE
            while not (told.exists() and told.read_text().count("\n")):
                if time.monotonic() > end or process.poll() is not None:
                    raise TimeoutError("Chromium did not start")
                time.sleep(0.1)
            pages = httpx.get(f"http://127.0.0.1:{told.read_text().split()[0]}/json/list").json()
            (place,) = (page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
            with connect(place, max_size=None) as socket:
                yield Browser(socket)
        finally:
            process.terminate()
            process.wait()


def web_page() -> AbstractContextManager[int]:
    """A page on this machine that attacks: its port."""
    return answering(lambda *_: (200, b"<!doctype html><title>a page</title><body>a page"))
