#include "control/ctl/render_control.h"

#include <gtest/gtest.h>

namespace cw::control {
namespace {

using Json = nlohmann::ordered_json;

TEST(RenderControl, DrainSaysHowFarItIs) {
  EXPECT_EQ(render_drain(Json::parse(R"({"state": "serving", "connections": 5})")), "serving, 5 connections\n");
  EXPECT_EQ(render_drain(Json::parse(R"({"state": "draining", "connections": 5, "ended_in_order": 7, "forced": 0,
    "elapsed_seconds": 1.25, "timeout_seconds": 30})")),
            "draining: 5 connections left, 7 ended in order, 0 by force, 1.2 s of 30.0 s\n");
}

TEST(RenderControl, ReloadTellsWhatTakesEffectWhen) {
  const Json answer = Json::parse(R"({"file": "c.toml", "valid": true, "applied": false, "problems": [], "changes": [
    {"key": "port[0].mtu", "before": "1500", "after": "9000", "takes_effect": "restart", "reason": "it is so"},
    {"key": "log.level", "before": "\"info\"", "after": "\"debug\"", "takes_effect": "at_once", "reason": ""}]})");
  EXPECT_EQ(render_reload(answer),
            "at once\n  log.level: \"info\" -> \"debug\"\nwith a restart\n  port[0].mtu: 1500 -> 9000 (it is so)\n"
            "c.toml: not read again, this was a preview\n");
}

TEST(RenderControl, AnInvalidFileChangesNothing) {
  const Json answer = Json::parse(R"({"file": "c.toml", "valid": false, "applied": false, "problems": ["c.toml:3: no"]})");
  EXPECT_EQ(render_reload(answer), "c.toml:3: no\nc.toml: not valid, nothing is changed\n");
}

}  // namespace
}  // namespace cw::control
