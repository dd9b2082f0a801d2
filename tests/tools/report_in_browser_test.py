"""The report of a run in Chromium: light and dark, on wide and narrow screens, for small and large plans."""
import subprocess

import browser
import programs

WIDE, NARROW = 1280, 420
# Of a colour "rgb(34, 34, 34)": its relative luminance (WCAG 2).
LUMINANCE = """
const luminance = colour => {
  const [r, g, b] = colour.match(/\\d+(\\.\\d+)?/g).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => { const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x); return (high + 0.05) / (low + 0.05); };
const page = getComputedStyle(document.body).backgroundColor;
"""
# The least contrast of text with what is behind it: the page, or the bar of a timeline.
CONTRAST = "(() => {" + LUMINANCE + """
  const html = [...document.querySelectorAll('h1,h2,p,td,th,code,.key span')].map(e => contrast(getComputedStyle(e).color, page));
  const svg = [...document.querySelectorAll('svg text:not(.in)')].map(e => contrast(getComputedStyle(e).fill, page));
  const bars = [...document.querySelectorAll('svg text.in')].map(e =>
    contrast(getComputedStyle(e).fill, getComputedStyle(e.previousElementSibling).fill));
  return Math.min(...html, ...svg, ...bars);
})()"""
# Labels of drawings that stick out of them.
CLIPPED = """[...document.querySelectorAll('svg')].flatMap(svg => {
  const box = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(text => {
    const own = text.getBoundingClientRect();
    return own.left < box.left - 1 || own.right > box.right + 1 || own.top < box.top - 1 || own.bottom > box.bottom + 1;
  }).map(text => text.textContent);
})"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
DRAWN = "[...document.querySelectorAll('svg[aria-label=timeline]')].map(svg => svg.querySelectorAll('rect[fill]').length)"


class ReportInBrowserTest(programs.ProgramTest):
    def setUp(self):
        super().setUp()
        self.browser = browser.Browser()
        self.addCleanup(self.browser.close)

    def judge(self, report, name):
        """Returns the page's colours by scheme."""
        colours = {}
        for dark in (False, True):
            for width in (WIDE, NARROW):
                scheme = "dark" if dark else "light"
                with self.subTest(report=name, scheme=scheme, width=width):
                    self.browser.open(report, width, dark)
                    self.assertEqual(self.browser.complaints, [])
                    self.assertEqual(self.browser.ask(OVERFLOW), 0, "the page scrolls sideways")
                    self.assertEqual(self.browser.ask(CLIPPED), [])
                    self.assertGreaterEqual(self.browser.ask(CONTRAST), 4.5)
                    colours[scheme] = self.browser.ask("getComputedStyle(document.body).backgroundColor")
                    # Kept with the output of the tests.
                    self.browser.screenshot(programs.bin_folder.parent / "tests" / "screens" / f"{name}-{scheme}-{width}.png")
        self.assertNotEqual(colours["light"], colours["dark"])

    def test_a_run(self):
        bundle, run = self.scratch / "gpt.rannc", self.scratch / "run"
        self.succeed("rannc-compile", programs.DATA / "small_gpt" / "model.onnx", "--loss", "cross_entropy(output=logits,labels=targets)",
                     "--costs", "analytic", "--stages", 2, "--mini-batch", 8, "--micro-batches", 4, "-o", bundle)
        data = programs.DATA / "small_gpt" / "batch.safetensors"
        self.succeed("rannc-run", bundle, "--data", data, "--validate", data, "--validate-every", 4, "--profile", "-o", run, "--steps", 8)
        self.judge(run / "report.html", "run")
        self.assertEqual(*self.browser.ask(DRAWN))

    def test_256_layers_on_32_devices(self):
        report = self.scratch / "large.html"
        subprocess.run([programs.bin_folder.parent / "tests" / "tools_large_report", report], check=True)
        self.judge(report, "large")
        drawn = self.browser.ask(DRAWN)
        # Forward and backward passes of 64 micro-batches, and an optimizer step, on each device; planned and actual.
        self.assertEqual(drawn, [32 * (2 * 64 + 1)] * 2)

    def test_an_error_on_the_page_is_found(self):
        page = self.scratch / "page.html"
        page.write_text("<!doctype html><title>t</title><script>console.error('wrong'); missing();</script>")
        self.browser.open(page, WIDE, dark=False)
        self.assertEqual(len(self.browser.complaints), 2)


if __name__ == "__main__":
    programs.main()
