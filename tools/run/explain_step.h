/// Shows planned beside measured times of a step.
#pragma once

#include <string>

#include "tools/run/step_account.h"

namespace rannc::tools {

/// Returns tables for a terminal: the parts of each device's step, and the actions by stage and kind.
std::string step_text(const PlannedBesideActual& step);
/// Returns a line per action with tab-separated columns, whose first line names them. Times are ns.
std::string step_actions(const PlannedBesideActual& step);
/// Returns the tables as a section of an HTML page.
std::string step_html(const PlannedBesideActual& step);

}  // namespace rannc::tools
