"""The live view as a browser, a stranger and Prometheus meet it: real sockets, a fake controller."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import stat
from importlib.resources import files

import pytest

from echelon.cli.live_view import _completed
from echelon.live.answers import TYPES
from echelon.live.controller_side import ANSWER_LIMIT_S, FRESH_S, ControllerSide
from echelon.live.gate import Gate, Refused
from echelon.live.server import MOST_BODY_BYTES, MOST_CONNECTIONS
from echelon.live.view import LiveView
from echelonflow.errors import EXIT_INTERRUPTED, EXIT_VALID, RunError
from echelonflow.files import write_private
from echelonflow.records.progress import LinksCarried
from echelonflow.wire.live import Live
from tests.unit.fake_controller import METRICS, FakeController, live
from tests.unit.watched_experiment import RUNNING, carried, experiment

LIMIT_S = 10.0
MOST_BYTES = 30_000
TOKEN = "a-token-of-32-characters-or-more"


@pytest.fixture
def view(tmp_path):
    """A live view of an experiment in mid-run with a fake controller: the view, the controller, how progress is told."""
    checked = experiment(tmp_path)
    with (
        FakeController(tmp_path / "rest.sock") as controller,
        LiveView(token=TOKEN, tell_s=0.0) as view,
        view.watching(checked, tmp_path, lambda _: None) as watching,
    ):
        watching(RUNNING)
        watching(carried(checked, 1.0))
        watching(carried(checked, 2.0, h1__s1=[0, 125_000, 0, 0, 0, 0, 0, 0]))
        yield view, controller, watching
        watching.end(EXIT_VALID)


def ask(view, path, method="GET", body=None, **headers):
    """(status, headers, body) of one request; the path is that behind the token, or the whole one if it begins with /."""
    connection = http.client.HTTPConnection("127.0.0.1", view.port, timeout=LIMIT_S)
    whole = path if path.startswith("/") else f"/{TOKEN}/{path}"
    shown = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, whole, body, shown)
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    return answer.status, answer.headers, said


def order(view, policy, path="policy", **headers):
    headers = {"Content_Type": "application/json", **headers}
    status, _, said = ask(view, path, "PUT", json.dumps({"policy": policy}), **headers)
    return status, json.loads(said)


def test_the_state_is_what_the_run_and_its_controller_say(view):
    view, _, _ = view
    state = json.loads(ask(view, "state.json")[2])
    assert state["stage"] == "run 2 of 6: echelonflow, repeat 0"
    assert state["controller"]["jobs"][0]["tardiness_s"] == 0.5
    assert state["controller"]["decision"]["trigger"] == "release pipeline/f1#1"
    drawing = json.loads(ask(view, "network.json")[2])
    loads = dict(zip((link["name"] for link in drawing["links"]), state["links"]["by_class_bps"], strict=True))
    assert loads["h1->s1"][1] == 1e6
    names = [policy["name"] for policy in json.loads(ask(view, "policies.json")[2])]
    assert {"fair", "echelonflow", "coflow"} <= set(names)


@pytest.mark.parametrize(
    "path", ["/", "/state.json", "/metrics", "/policies.json", f"/{TOKEN[:-1]}x/state.json", f"/{TOKEN}"]
)
def test_without_the_token_nothing_is_told(view, path):
    view, controller, _ = view
    status, _, said = ask(view, path)
    assert status == 403
    assert "the whole address" in json.loads(said)["error"]
    assert controller.asked == []


def test_a_policy_is_swapped_by_who_has_the_token_and_by_nobody_else(view):
    view, controller, _ = view
    assert order(view, "fair", "/policy")[0] == 403
    assert order(view, "fair", "/wrong-token/policy")[0] == 403
    assert order(view, "fair", Origin="http://evil.example")[0] == 403
    assert order(view, "fair", Sec_Fetch_Site="cross-site")[0] == 403
    assert order(view, "fair", Host=f"evil.example:{view.port}")[0] == 421
    assert order(view, "fair", Content_Type="text/plain")[0] == 415
    assert controller.ordered == []
    assert order(view, "fair", Origin=f"http://127.0.0.1:{view.port}", Sec_Fetch_Site="same-origin") == (
        200,
        {"policy": "fair", "enforcer": "priority"},
    )
    assert controller.ordered == [{"policy": "fair"}]


def test_a_refused_order_is_said_in_the_words_of_the_controller(view):
    view, controller, _ = view
    status, said = order(view, "fare")
    assert (status, said["error"]) == (422, "the controller refused: unknown policy 'fare'; there is: coflow, fair")
    assert order(view, "")[0] == 422
    assert controller.ordered == [{"policy": "fare"}]


@pytest.mark.parametrize("policy", ["./mine.py", "/etc/passwd", "mine.py(option=1)", "../x(y=1)"])
def test_a_policy_file_is_code_and_is_not_taken(view, policy):
    view, controller, _ = view
    status, said = order(view, policy)
    assert (status, controller.ordered) == (403, [])
    assert "a policy file is code" in said["error"]


def test_only_the_pages_own_files_are_served(view):
    view, _, _ = view
    types = {name: ask(view, name)[1]["Content-Type"] for name in ("", "index.html", "page.css", "page.js")}
    assert types == {
        "": "text/html; charset=utf-8", "index.html": "text/html; charset=utf-8",
        "page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8",
    }  # fmt: skip
    for path in (
        "../watched.py",
        "..%2f..%2fsetup.py",
        "watched.yaml",
        "/etc/passwd",
        "page/page.js",
        "state.json/",
        "page.js\\",
    ):
        assert ask(view, path if path.startswith("/") else f"/{TOKEN}/{path}")[0] in (403, 404), path


def test_every_answer_forbids_what_comes_from_elsewhere(view):
    view, _, _ = view
    for path in ("", "state.json", "nothing", "/"):
        headers = ask(view, path)[1]
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"


def test_it_listens_on_loopback_alone(view):
    view, _, _ = view
    assert view._listening.getsockname()[0] == "127.0.0.1"


def test_prometheus_is_told_what_the_controller_counts_and_what_links_carried(view):
    view, _, _ = view
    text = ask(view, "/metrics", Authorization=f"Bearer {TOKEN}")[2].decode()
    assert text.startswith(METRICS)
    assert 'echelon_link_bytes_total{link="h1->s1",class="1"} 125000' in text
    assert 'echelon_link_rate_bits_per_second{link="h1->s1"} 8000000' in text
    assert ask(view, "metrics")[2].decode() == text
    assert ask(view, "/metrics", Authorization="Bearer x")[0] == 403


def test_what_is_hardly_http_is_no_event(view):
    view, _, _ = view
    for request in (
        b"\x00\xff\r\n\r\n",
        b"GET\r\n\r\n",
        b"BREW /x HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"x" * 70_000,
    ):
        with socket.create_connection(("127.0.0.1", view.port), LIMIT_S) as connection:
            with contextlib.suppress(OSError):
                connection.sendall(request)
                connection.shutdown(socket.SHUT_WR)
            first = connection.makefile("rb").readline()
            assert first == b"" or first.split()[1].startswith((b"4", b"5")), (request[:20], first)
    assert ask(view, "state.json")[0] == 200


@pytest.mark.parametrize(
    ("length", "status"), [(None, 411), ("-1", 411), ("x", 411), (str(MOST_BODY_BYTES + 1), 413), ("9" * 30, 413)]
)
def test_a_body_is_bounded(view, length, status):
    view, controller, _ = view
    with socket.create_connection(("127.0.0.1", view.port), LIMIT_S) as connection:
        head = f"PUT /{TOKEN}/policy HTTP/1.1\r\nHost: 127.0.0.1:{view.port}\r\nContent-Type: application/json\r\n"
        connection.sendall((head + ("" if length is None else f"Content-Length: {length}\r\n") + "\r\n").encode())
        assert int(connection.makefile("rb").readline().split()[1]) == status
    assert controller.ordered == []
    assert ask(view, "policy")[0] == 405
    assert ask(view, "state.json", "PUT", "{}", Content_Type="application/json")[0] == 405


def test_silent_connections_keep_nobody_out(view):
    view, _, _ = view
    silent = [socket.create_connection(("127.0.0.1", view.port), LIMIT_S) for _ in range(3 * MOST_CONNECTIONS)]
    assert ask(view, "state.json")[0] == 200
    silent[0].settimeout(LIMIT_S)
    with contextlib.suppress(ConnectionResetError):
        assert silent[0].recv(1) == b""  # who has been silent for longest was sent away
    for connection in silent:
        connection.close()


def test_one_connection_carries_many_requests(view):
    view, _, _ = view
    connection = http.client.HTTPConnection("127.0.0.1", view.port, timeout=LIMIT_S)
    for _ in range(3):
        connection.request("GET", f"/{TOKEN}/state.json")
        answer = connection.getresponse()
        assert (answer.status, bool(answer.read())) == (200, True)
        assert connection.sock is not None
    connection.close()


def test_the_page_is_small_and_names_no_other_place():
    page = {name: (files("echelon.live") / "page" / name).read_text() for name in TYPES}
    assert sum(len(text.encode()) for text in page.values()) < MOST_BYTES
    for name, text in page.items():
        assert "://" not in text.replace("http://www.w3.org/2000/svg", ""), name
        assert "innerHTML" not in text, name
        assert not ("style=" in text and name == "index.html"), name


# The controller is asked seldom


def test_many_who_look_cost_the_controller_one_answer(tmp_path):
    now = [0.0]
    with FakeController(tmp_path / "rest.sock") as controller:
        side = ControllerSide(lambda: tmp_path / "rest.sock", lambda: now[0])
        assert [side.live() for _ in range(5)] == [(live(), "")] * 5
        assert len(controller.asked) == 1
        now[0] += FRESH_S
        side.live()
        assert len(controller.asked) == 2


def test_a_controller_that_is_not_there_is_said(tmp_path):
    now = [0.0]
    side = ControllerSide(lambda: tmp_path / "rest.sock", lambda: now[0])
    assert side.live() == (None, "no controller is up")
    with pytest.raises(RunError, match="no controller is up"):
        side.order("fair", None)
    with socket.socket(socket.AF_UNIX) as left:  # by one that was killed
        left.bind(str(tmp_path / "rest.sock"))
    now[0] += FRESH_S
    assert side.live()[0] is None
    assert "no controller answers at" in side.live()[1]


def test_what_is_no_controller_of_ours_is_said(tmp_path):
    with FakeController(tmp_path / "rest.sock") as controller:
        controller.says = {"jobs": "all"}
        answer, silence = ControllerSide(lambda: tmp_path / "rest.sock").live()
        assert answer is None
        assert "is not a controller of ours" in silence
    assert ANSWER_LIMIT_S < LIMIT_S


# The end


def test_who_looks_is_told_of_the_end_and_where_the_report_is(tmp_path):
    checked = experiment(tmp_path)
    with LiveView(token=TOKEN, tell_s=0.0) as view, view.watching(checked, tmp_path, lambda _: None) as watching:
        watching(RUNNING)
        assert json.loads(ask(view, "state.json")[2])["ended"] == ""
        watching.end(EXIT_INTERRUPTED)
        said = json.loads(ask(view, "state.json")[2])
        assert said["ended"].startswith("The experiment was interrupted")
        assert json.loads(ask(view, "network.json")[2])["report"] == str(tmp_path / "report.html")
    with pytest.raises(ConnectionRefusedError):
        ask(view, "state.json")


def test_why_it_failed_is_told(tmp_path):
    with LiveView(token=TOKEN, tell_s=0.0) as view:
        with pytest.raises(RunError), view.watching(experiment(tmp_path), tmp_path, lambda _: None):
            raise RunError("the machine is gone")
        assert json.loads(ask(view, "state.json")[2])["ended"] == "The experiment has ended: the machine is gone"


def test_progress_goes_on_to_the_terminal_but_for_what_links_carry(tmp_path):
    heard, checked = [], experiment(tmp_path)
    with LiveView(tell_s=0.0) as view, view.watching(checked, tmp_path, heard.append) as watching:
        for progress in (RUNNING, carried(checked, 1.0)):
            watching(progress)
    assert heard == [RUNNING]
    assert not any(isinstance(one, LinksCarried) for one in heard)


# The command line


def test_a_port_in_use_is_one_message(tmp_path, echelon):
    experiment(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = echelon("run", tmp_path / "watched.yaml", "--out", tmp_path / "out", "--live", str(port))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert f"--live {port}: cannot listen at 127.0.0.1:{port}" in done.stderr
    assert not (tmp_path / "out").exists()


def test_of_a_simulation_there_is_nothing_to_watch_and_it_is_run(tmp_path, echelon):
    experiment(tmp_path)
    done = echelon(
        "run",
        "--live",
        tmp_path / "watched.yaml",
        "--backend",
        "fluid",
        "--out",
        tmp_path / "out",
        "--pictures",
        "none",
    )
    assert done.returncode == 0, done.stderr
    (said,) = [line for line in done.stderr.splitlines() if "--live" in line]
    assert "nothing to watch" in said
    assert (tmp_path / "out" / "report.html").exists()
    again = echelon("run", "--resume", tmp_path / "out", "--live", "--pictures", "none")
    assert again.returncode == 0, again.stderr
    assert said in again.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--live", "99999"], "99999"),
        (["--live-token", "x"], "--live-token is for --live"),
        (["--live", "--live-token", "none.token"], "none.token: cannot be read"),
    ],
)
def test_what_cannot_be_is_bad_input(tmp_path, echelon, arguments, words):
    experiment(tmp_path)
    done = echelon("run", tmp_path / "watched.yaml", *arguments)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert words in done.stderr


@pytest.mark.parametrize(
    ("given", "understood"),
    [
        (["--live", "e.yaml"], ["--live", "0", "e.yaml"]),
        (["e.yaml", "--live"], ["e.yaml", "--live", "0"]),
        (["--live", "8080", "e.yaml"], ["--live", "8080", "e.yaml"]),
        (["--live=8080", "e.yaml"], ["--live=8080", "e.yaml"]),
        (["--live", "--json"], ["--live", "0", "--json"]),
        (["--", "--live"], ["--", "--live"]),
    ],
)
def test_the_port_may_be_left_out(given, understood):
    assert _completed(given) == understood


def test_a_token_of_ones_own_stays(tmp_path):
    own = tmp_path / "own.token"
    write_private(own, f"{TOKEN}\n".encode())
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    with LiveView(token=TOKEN, tell_s=0.0) as one, LiveView() as other:
        assert one.url == f"http://127.0.0.1:{one.port}/{TOKEN}/"
        assert TOKEN not in other.url
        assert len(other.url) > 60


def test_names_of_this_machine_are_taken_and_no_others():
    gate = Gate(TOKEN, 80)
    for host in ("127.0.0.1", "localhost", "LOCALHOST:80", "127.0.0.1:80"):
        assert gate.entered(f"/{TOKEN}/state.json?x=1", {"Host": host}) == "state.json"
    for host in ("", "evil.example", "127.0.0.1:81", "127.0.0.1.evil.example", "0.0.0.0"):
        refused = gate.entered(f"/{TOKEN}/state.json", {"Host": host})
        assert isinstance(refused, Refused)
        assert refused.status == 421


def test_a_link_to_the_page_may_be_followed_but_nothing_else_is_told_to_other_sites():
    gate, other = Gate(TOKEN, 80), {"Host": "localhost", "Sec-Fetch-Site": "cross-site"}
    assert gate.entered(f"/{TOKEN}/", other) == ""
    assert isinstance(gate.entered(f"/{TOKEN}/state.json", other), Refused)


def test_between_runs_the_state_says_so(tmp_path):
    with FakeController(tmp_path / "rest.sock", Live()), LiveView(token=TOKEN, tell_s=0.0) as view:
        state = json.loads(ask(view, "state.json")[2])
        assert (state["number"], state["controller"], state["silence"]) == (0, None, "no controller is up")
        assert ask(view, "network.json")[0] == 404
