/// Says for people where the time of training steps went.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace rannc::tools {

struct ProfilePart {
  std::string_view key, words, colour;
};
/// What the wall time of a device's step consists of (`StepProfile::part`), in the order of tables.
inline constexpr std::array<ProfilePart, 10> kProfileParts = {{
    {"products", "products", "#5b8ff9"},             // matrices, convolutions, attention, recurrent layers
    {"operators", "other operators", "#6ec6d9"},     //
    {"tape_forward", "tape, forward", "#f6903d"},    // the interpreter, and recording; forward passes again included
    {"tape_backward", "tape, backward", "#f7c59f"},  // walking it
    {"allocation", "allocation", "#9270ca"},         // in all of these; new pages are touched by operators
    {"optimizer", "optimizer", "#61a861"},           // the action S, norms, updates after clipping
    {"messages", "messages", "#c8a415"},             // sends, receives, sums, but for waiting
    {"waiting", "waiting", "#9a9a9a"},               // for other devices
    {"around", "around actions", "#555555"},         // batches, losses, walking the schedule
    {"profiling", "this profile", "#d9d9d9"},        // following operators
}};

/// Tasks that tables name.
inline constexpr size_t kProfileTasks = 20;

/// Tables of what each process found; each device has the wall time of its process's steps.
std::string profile_text(const nlohmann::json& processes);
/// The same as a section of a page, drawn; `escaped` makes names safe there.
std::string profile_html(const nlohmann::json& processes, std::string (*escaped)(std::string_view));

}  // namespace rannc::tools
