#!/usr/bin/env python3
"""Opens the report's page in headless Chromium: no error in its console, nothing from outside, hostile texts stay texts.

  tests/manual/long/report_page.py [--trajectories 100000] [--pictures FOLDER]

Wide and narrow, light and dark; charts with hover, legend and table; keys of the trajectories; two runs side by side; a
page without its charting library; a large store; a run that is watched. Ends with 1 when something does not hold, with
77 where there is no Chromium.
"""

import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import browser

ROOT = Path(__file__).resolve().parents[3]
MOST_BYTES = 1_000_000
MOST_LOAD_S = 5
failures = []


def check(holds, what):
    print(f"  {'ok' if holds else 'FAILED'}  {what}", flush=True)
    if not holds:
        failures.append(what)


def khost(*arguments, **environment):
    done = subprocess.run(
        [ROOT / "khost", *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=550,
    )
    if done.returncode != 0:
        sys.exit(f"khost {arguments} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def make(folder, *options):
    khost("tests/manual/long/report_store.lua", folder, *options)
    return glob.glob(f"{folder}/*/run.sqlite")[0].rsplit("/", 1)[0]


def until(page, expression, seconds=15):
    """Whether an expression becomes true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if page.value(expression):
            return True
        time.sleep(0.1)
    return False


def quiet(page, what):
    outside = [url for url in page.requests if not url.startswith(("file://", "http://127.0.0.1", "data:", "about:"))]
    check(not page.errors, f"{what}: no error in the console {page.errors[:2] or ''}")
    check(not outside, f"{what}: nothing from outside {outside[:2] or ''}")
    check(page.value("typeof window.broken") == "undefined", f"{what}: no text of strangers was run")
    page.errors.clear()


def smoothing(page):
    """The exponential mean keeps a constant, starts at the first value and lags behind a step."""
    check(page.value("khost.smooth([2, 2, 2, 2], 0.9).every((v) => Math.abs(v - 2) < 1e-12)"), "smoothing keeps a constant")
    check(page.value("(([a, , c]) => a === 0 && c > 0.5 && c < 1)(khost.smooth([0, 1, 1], 0.5))"), "and lags behind a step")


def charts(page):
    """A chart that is drawn, that answers the pointer, its legend and its table."""
    drawn = "Chart.getChart(document.querySelector('#curves canvas'))"
    page.value("document.getElementById('curves').scrollIntoView()")
    check(until(page, f"!!{drawn}"), "a chart is made when it is seen")
    page.value("window.scrollBy(0, -20)")
    box = json.loads(page.value("JSON.stringify(document.querySelector('#curves canvas').getBoundingClientRect())"))
    page.point(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.5)
    check(until(page, f"{drawn}.tooltip.opacity > 0.5"), "the pointer shows the values of a step")
    check(page.value(f"{drawn}.tooltip.body.length") == 2, "of both stages")
    page.value("document.querySelector('#curves .legend button').click()")
    check(page.value(f"{drawn}.isDatasetVisible(0)") is False, "a legend's button hides its line")
    page.value("document.querySelector('#curves .legend button').click()")
    page.value("document.querySelector('#curves figcaption .quiet').click()")
    check(page.value("document.querySelectorAll('#curves .as-table:not([hidden]) tbody tr').length") == 40, "a chart's table has its steps")
    page.value("document.querySelector('#curves figcaption .quiet').click()")
    page.value("document.querySelector('#curves details.wide').open = true")
    check(until(page, "document.querySelectorAll('#curves details .chart').length > 5"), "all metrics open")
    page.value("document.querySelector('#curves details.wide').open = false")


def reading(page):
    """The list of trajectories by keys, and the reader."""
    chosen = "document.querySelector('.entries [aria-selected=true]')"
    page.value("document.getElementById('trajectories').scrollIntoView()")
    first = page.value(f"{chosen}.dataset.key")
    page.key("j")
    page.key("j")
    page.key("k")
    check(page.value(f"{chosen}.dataset.key") != first, "j and k choose a trajectory")
    check(page.value(f"{chosen} === document.querySelectorAll('.entries li')[1]"), "the second one")
    page.key("/")
    check(page.value("document.activeElement.type") == "search", "/ goes to the filter")
    page.value(
        "(() => { const f = document.querySelector('#trajectories .filter'); f.value = 'hostile'; f.dispatchEvent(new Event('input')); f.blur(); })()"
    )
    check(page.value("document.querySelectorAll('.entries li').length") == 5, "the filter finds the hostile ones")
    check("hostile </script>" in page.value("document.querySelector('.reader').textContent"), "whose text is shown as text")
    check(page.value("document.querySelectorAll('.reader img, .reader base, .reader script').length") == 0, "and is no element")
    page.value(
        "(() => { const f = document.querySelector('#trajectories .filter'); f.value = 'ok 2'; f.dispatchEvent(new Event('input')); })()"
    )
    check(page.value("document.querySelectorAll('.reader .turn').length") >= 1, "turns are listed")
    check(page.value("document.querySelectorAll('.reader .c-keyword').length") > 3, "code has colours")
    check(page.value("!!document.querySelector('.reader .verdict')"), "and ends with its verdict")
    page.key("n")
    page.value("document.querySelector('.entries').focus()")
    page.key("ArrowDown", 40)
    check(page.value(f"{chosen} === document.querySelectorAll('.entries li')[1]"), "arrows work in the list")


def small(folder, pictures):
    print("a small run")
    run = make(folder + "/a", "--trajectories", 600, "--steps", 40)
    khost("report", run)
    path = run + "/report.html"
    check(os.path.getsize(path) < MOST_BYTES, f"the page is below 1 MB ({os.path.getsize(path)} bytes)")
    for width, dark in ((1280, False), (390, True), (1280, True), (390, False)):
        look = f"{'wide' if width > 900 else 'narrow'}, {'dark' if dark else 'light'}"
        with browser.Browser(width, 900, dark) as page:
            page.open("file://" + path)
            check(page.value("document.querySelectorAll('main > section').length") == 8, f"{look}: eight sections")
            check(page.value("document.documentElement.scrollWidth") == width, f"{look}: no scrolling sideways")
            check(page.value("document.querySelectorAll('.banner li').length") == 7, f"{look}: seven alarms")
            ground = page.value("getComputedStyle(document.body).backgroundColor")
            check((ground == "rgb(17, 20, 24)") == dark, f"{look}: the ground is {ground}")
            if width > 900 and not dark:
                smoothing(page)
                charts(page)
                reading(page)
                page.value("document.querySelector('.top button').click()")
                check(page.value("getComputedStyle(document.body).backgroundColor") == "rgb(17, 20, 24)", "the button turns it dark")
            height = page.value("document.documentElement.scrollHeight")
            for number, place in enumerate(range(0, height, 850)):
                page.value(f"window.scrollTo(0, {place})")
                time.sleep(0.1)
                if pictures:
                    page.picture(f"{pictures}/{look.replace(', ', '-')}-{number:02d}.png")
            quiet(page, look)
    return run


def beside(folder, run):
    print("two runs, and no library")
    other = make(folder + "/b", "--trajectories", 200, "--steps", 30, "--seed", 2)
    khost("report", run, other, "--output", folder + "/two.html")
    empty = {"XDG_CACHE_HOME": folder + "/cache", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": folder}
    khost("report", run, "--output", folder + "/bare.html", **empty)
    with browser.Browser() as page:
        page.open("file://" + folder + "/two.html")
        check(page.value("document.querySelectorAll('#overview .timeline').length") == 2, "a timeline for each")
        check("ppo.actor_lr" in page.value("document.querySelector('#overview').textContent"), "what differs in their configuration")
        check(page.value("document.querySelector('#curves .legend').children.length") == 2, "a line for each")
        quiet(page, "two runs")
        page.open("file://" + folder + "/bare.html")
        check(page.value("document.querySelectorAll('#curves .as-table:not([hidden])').length") > 5, "charts are tables")
        check("pip download" in page.value("document.querySelector('footer').textContent"), "and the page says why")
        quiet(page, "no library")


def large(folder, trajectories):
    print(f"a store of {trajectories} trajectories")
    run = make(folder + "/c", "--trajectories", trajectories, "--steps", 1000)
    begin = time.monotonic()
    khost("report", run)
    print(f"  made in {time.monotonic() - begin:.1f} s")
    path = run + "/report.html"
    check(os.path.getsize(path) < MOST_BYTES, f"the page is below 1 MB ({os.path.getsize(path)} bytes)")
    with browser.Browser() as page:
        seconds = page.open("file://" + path)
        check(seconds < MOST_LOAD_S, f"it is drawn {seconds:.2f} s after it was asked for")
        note = page.value("document.querySelector('#trajectories .note').textContent")
        check(" of 100," in note or f" of {trajectories:,}"[:6] in note, f"it says what it holds: {note}")
        check("steps drawn" in page.value("document.querySelector('#curves').textContent"), "and that curves are thinned")
        quiet(page, "large")


def watched(folder):
    print("a run that is watched")
    run = make(folder + "/d", "--trajectories", 60, "--steps", 10, "--running")
    server = subprocess.Popen([ROOT / "khost", "watch", run, "--every", "1"], stdout=subprocess.PIPE, text=True)
    step = "khost.data.runs[0].curves.find((c) => c.stage === 'agentic' && c.name === 'reward').x.slice(-1)[0]"
    try:
        url = server.stdout.readline().strip()
        check(url.startswith("http://127.0.0.1:"), f"it says where: {url}")
        with browser.Browser() as page:
            page.open(url)
            check(page.value(step) == 10, "the page shows what is stored")
            page.key("j")
            chosen = page.value("khost.state.chosen")
            page.value("document.querySelector('.reader details').open = true")
            khost("tests/manual/long/report_store.lua", run, "--append", 11)
            check(until(page, f"{step} === 11"), "and a new step without being loaded again")
            check(page.value("khost.state.chosen") == chosen, "at the trajectory that was read")
            check(page.value("document.querySelector('.reader details').open"), "with what was opened in it")
            quiet(page, "watched")
    finally:
        server.terminate()
        server.wait(20)
    path = folder + "/live.html"
    writer = subprocess.Popen([ROOT / "khost", "watch", run, "--every", "1", "--file", path], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while not os.path.exists(path) and time.monotonic() < deadline:
            time.sleep(0.1)
        with browser.Browser() as page:
            page.open("file://" + path)
            khost("tests/manual/long/report_store.lua", run, "--append", 12)
            check(until(page, f"typeof khost !== 'undefined' && khost.data && {step} === 12"), "a file shows a new step too")
            khost("tests/manual/long/report_store.lua", run, "--finish")
            check(writer.wait(30) == 0, "and its writer ends with the run")
            quiet(page, "file")
    finally:
        writer.kill()
        writer.wait(20)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trajectories", type=int, default=100000, help="of the large store")
    parser.add_argument("--pictures", help="a folder for pictures of every screen")
    options = parser.parse_args()
    if not browser.find():
        print("no Chromium on this machine: apt-get install chromium", file=sys.stderr)
        return 77
    if options.pictures:
        os.makedirs(options.pictures, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="khost-report-page-")
    try:
        run = small(folder, options.pictures)
        beside(folder, run)
        watched(folder)
        large(folder, options.trajectories)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(failures)} failed" if failures else "all held")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
