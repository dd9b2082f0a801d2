/// Formats the profile of training steps for people.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace rannc::tools {

struct ProfilePart {
  std::string_view key, words, colour;
};
/// Components of the wall time of a device's step (`StepProfile::part`), in the order of the tables.
inline constexpr std::array<ProfilePart, 10> kProfileParts = {{
    {"products", "products", "#5b8ff9"},             // matrix products, convolutions, attention, recurrent layers
    {"operators", "other operators", "#6ec6d9"},     //
    {"tape_forward", "tape, forward", "#f6903d"},    // interpreter and recording, recomputation included
    {"tape_backward", "tape, backward", "#f7c59f"},  // traversal of the tape
    {"allocation", "allocation", "#9270ca"},         // in all of the above; page faults count as operators
    {"optimizer", "optimizer", "#61a861"},           // action S, norms, updates after clipping
    {"messages", "messages", "#c8a415"},             // sends, receives and sums, without waiting
    {"waiting", "waiting", "#9a9a9a"},               // for other devices
    {"around", "around actions", "#555555"},         // batches, losses, interpreting the schedule
    {"profiling", "this profile", "#d9d9d9"},        // overhead of the profile
}};

/// Maximum number of tasks in a table.
inline constexpr size_t kProfileTasks = 20;

/// Returns tables of the results of each process. Each device has the wall time of its process's steps.
std::string profile_text(const nlohmann::json& processes);
/// Returns the same as a section of an HTML page, with charts. `escaped` escapes names for HTML.
std::string profile_html(const nlohmann::json& processes, std::string (*escaped)(std::string_view));

}  // namespace rannc::tools
