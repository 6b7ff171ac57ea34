#include "control/config/config_parse.h"

#include "control/config/config_keys.h"
#include "control/config/section_parser.h"

namespace cw::control {

ParsedConfig config_parse(std::string_view text, std::string_view file) {
  ParsedConfig out;
  out.file = file;
  parse_toml(text, out, [&](SectionParser& parser) {
    for_each_section([&](const auto& section, auto member) { parser.section(section, out.config.*member); });
    for (ListenerConfig& listener : out.config.listeners) {
      listener.name = listener.name.empty() ? listener.backend : listener.name;
    }
  });
  return out;
}

}  // namespace cw::control
