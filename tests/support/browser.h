// A page in the distribution's Chromium, without a screen.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "tests/support/run_program.h"
#include "tests/support/temporary_directory.h"

namespace miniddp::testing {

/// Chromium's name on this machine; empty if there is none.
inline std::string find_browser() {
  const ProgramResult found = run_program({"sh", "-c", "command -v chromium || command -v chromium-browser || command -v google-chrome"}, std::chrono::seconds(10));
  return found.output.substr(0, found.output.find('\n'));
}

/// Opens the page in a frame `width` pixels wide (a window cannot be as narrow as a telephone) and returns the attributes that the page's
/// own script has given its root element.
inline std::map<std::string, std::string> open_page(const std::string& browser, const std::string& page, int width) {
  const TemporaryDirectory directory;
  std::string quoted;
  for (const char c : page) quoted += c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  const std::filesystem::path file = directory.path() / "frame.html";
  // The frame's root is copied to the outer one, which --dump-dom prints.
  write_file(file, fmt::format(R"(<!doctype html><iframe id="frame" style="width:{}px;height:3000px;border:0" srcdoc="{}"></iframe><script>
addEventListener('load', () => {{
  const inner = document.getElementById('frame').contentDocument.documentElement;
  document.body.textContent = [...inner.attributes].map(each => '@' + each.name + '=' + each.value + '@').join('');
}});</script>)",
                               width, quoted));
  const ProgramResult result = run_program({browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                                            "--user-data-dir=" + (directory.path() / "profile").string(), "--window-size=1400,1000", "--dump-dom",
                                            "file://" + file.string()},
                                           std::chrono::seconds(90));
  std::map<std::string, std::string> attributes;
  if (result.exit_code != 0) attributes["browser"] = result.summary();
  for (size_t at = result.output.find('@'); at != std::string::npos; at = result.output.find('@', at)) {
    const size_t end = result.output.find('@', at + 1);
    if (end == std::string::npos) break;
    const std::string pair = result.output.substr(at + 1, end - at - 1);
    attributes[pair.substr(0, pair.find('='))] = pair.substr(pair.find('=') + 1);
    at = end + 1;
  }
  return attributes;
}

}  // namespace miniddp::testing
