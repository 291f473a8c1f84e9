#include "chapters/06_dp_vs_ddp/page.h"

#include "page_files.h"  // made from page/ by CMake

namespace miniddp {
namespace {

void replace(std::string& text, const std::string& mark, const std::string& by) {
  const size_t at = text.find(mark);
  if (at == std::string::npos) throw std::logic_error("the page has no place for " + mark);
  text.replace(at, mark.size(), by);
}

}  // namespace

std::string report_page(const Report& report) {
  std::string data = nlohmann::json(report).dump();
  // Inside a script element "</" would end it.
  for (size_t at = 0; (at = data.find('<', at)) != std::string::npos;) data.replace(at, 1, "\\u003c");
  std::string page = page_html;
  replace(page, "/*STYLE*/", page_css);
  replace(page, "/*SCRIPT*/", page_js);
  replace(page, "DATA", data);
  return page;
}

}  // namespace miniddp
