#include "apps/sim/shrinker.h"

#include <algorithm>
#include <charconv>

namespace cw::sim {
namespace {

constexpr uint32_t kHalvingsMax = 10;

using Kept = std::vector<KeptFault>;

class Shrinker {
 public:
  Shrinker(const Scenario& scenario, const std::function<bool(const Scenario&)>& still_fails, uint32_t runs_max)
      : scenario_(scenario), still_fails_(still_fails), runs_max_(runs_max) {}

  Kept shrink() {
    Kept kept;
    for (uint32_t i = 0; i < scenario_.faults.size(); ++i) {
      kept.push_back({i, 0});
    }
    take_out(kept);
    shorten(kept);
    return kept;
  }
  [[nodiscard]] uint32_t runs() const { return runs_; }

 private:
  bool fails(const Kept& kept) {
    if (runs_ == runs_max_) {
      return false;
    }
    ++runs_;
    return still_fails_(keep(scenario_, kept));
  }

  // Zeller's ddmin by complements: without ever smaller parts of the list, as long as that still fails.
  void take_out(Kept& kept) {
    if (!kept.empty() && fails({})) {
      kept.clear();
      return;
    }
    for (size_t parts = 2; kept.size() >= 2 && parts <= kept.size();) {
      const size_t length = (kept.size() + parts - 1) / parts;
      bool smaller = false;
      for (size_t at = 0; at < kept.size(); at += length) {
        Kept rest = kept;
        rest.erase(rest.begin() + static_cast<ptrdiff_t>(at),
                   rest.begin() + static_cast<ptrdiff_t>(std::min(at + length, kept.size())));
        if (fails(rest)) {
          kept = std::move(rest);
          smaller = true;
          break;
        }
      }
      if (smaller) {
        parts = std::max<size_t>(2, parts - 1);
      } else if (parts == kept.size()) {
        return;
      } else {
        parts = std::min(kept.size(), parts * 2);
      }
    }
  }

  void shorten(Kept& kept) {
    for (size_t i = 0; i < kept.size(); ++i) {
      while (kept[i].halvings < kHalvingsMax) {
        Kept shorter = kept;
        ++shorter[i].halvings;
        if (!fails(shorter)) {
          break;
        }
        kept = std::move(shorter);
      }
    }
  }

  const Scenario& scenario_;
  const std::function<bool(const Scenario&)>& still_fails_;
  uint32_t runs_max_;
  uint32_t runs_ = 0;
};

}  // namespace

std::string to_string(const std::vector<KeptFault>& kept) {
  std::string out;
  for (const KeptFault& one : kept) {
    out += (out.empty() ? "" : ",") + std::to_string(one.fault);
    if (one.halvings > 0) {
      out += "/" + std::to_string(1u << one.halvings);
    }
  }
  return out.empty() ? "none" : out;
}

bool parse_kept(const std::string& text, std::vector<KeptFault>& out) {
  out.clear();
  if (text == "none") {
    return true;
  }
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    KeptFault one;
    auto parsed = std::from_chars(at, end, one.fault);
    if (parsed.ec == std::errc() && parsed.ptr != end && *parsed.ptr == '/') {
      uint32_t divisor = 0;
      parsed = std::from_chars(parsed.ptr + 1, end, divisor);
      for (; divisor > 1; divisor /= 2) {
        ++one.halvings;
      }
    }
    if (parsed.ec != std::errc() || one.halvings > kHalvingsMax) {
      out.clear();
      return false;
    }
    out.push_back(one);
    if (parsed.ptr == end) {
      return true;
    }
    if (*parsed.ptr != ',') {
      out.clear();
      return false;
    }
    at = parsed.ptr + 1;
  }
}

Scenario keep(const Scenario& scenario, const std::vector<KeptFault>& kept) {
  Scenario out = scenario;
  out.faults.clear();
  for (const KeptFault& one : kept) {
    if (one.fault < scenario.faults.size()) {
      Fault fault = scenario.faults[one.fault];
      const Duration length = fault.at_frame > 0 ? fault.until : fault.until - fault.from;
      fault.until = (fault.at_frame > 0 ? Duration() : fault.from) + length / (int64_t{1} << one.halvings);
      out.faults.push_back(fault);
    }
  }
  return out;
}

Shrunk shrink(const Scenario& scenario, const std::function<bool(const Scenario&)>& still_fails, uint32_t runs_max) {
  Shrinker shrinker(scenario, still_fails, runs_max);
  Shrunk out;
  out.kept = shrinker.shrink();
  out.runs = shrinker.runs();
  return out;
}

}  // namespace cw::sim
