// Inputs that are frames of the store are edited as frames, so that most keep their length.
#include <vector>

#include "runtime/transport/internal/store_wire.h"
#include "tests/fuzz/target.h"
#include "tests/runtime/transport/fuzz/frames.h"

namespace rannc::fuzz {

namespace {

using runtime::StoreWriter;
constexpr size_t kNumberBytes = 8;

struct Frames {
  std::vector<std::string> bodies;
  std::string rest;  // after the last whole frame
};

Frames frames_of(std::string_view bytes) {
  Frames frames;
  while (bytes.size() > 4) {
    const size_t size = runtime::store_frame_size(bytes);
    if (size == 0 || size > bytes.size() - 4) break;
    frames.bodies.emplace_back(bytes.substr(4, size));
    bytes.remove_prefix(4 + size);
  }
  frames.rest = bytes;
  return frames;
}

std::string number_of(uint64_t value) { return StoreWriter().number(value).frame().substr(4); }

std::string bytes_of(const Frames& frames) {
  std::string bytes;
  for (const std::string& body : frames.bodies) bytes += number_of(body.size()).substr(0, 4) + body;
  return bytes + frames.rest;
}

void set_number(std::string& body, Random& random) {
  const uint64_t numbers[] = {0, 1, body.size(), uint64_t{1} << 20, uint64_t{1} << 32, uint64_t{1} << 63, ~uint64_t{0}};
  if (body.size() < kNumberBytes) return;
  body.replace(below(body.size() - kNumberBytes + 1, random), kNumberBytes,
               number_of(numbers[below(std::size(numbers), random)]));
}

void edit_frames(Frames& frames, const Frames& other, Random& random) {
  const size_t at = below(frames.bodies.size(), random);
  std::string& body = frames.bodies[at];
  switch (below(5, random)) {
    case 0:
      edit_bytes(body, body, random);
      break;
    case 1:
      set_number(body, random);
      break;
    case 2:
      body.replace(0, kNumberBytes, number_of(below(runtime::kStoreRequests + 1, random)));
      break;
    case 3:
      frames.bodies.erase(frames.bodies.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    default:
      frames.bodies.insert(frames.bodies.end(), other.bodies.begin(), other.bodies.end());
      break;
  }
}

}  // namespace

void edit(std::string& input, const std::string& other, Random& random) {
  std::string bytes = bytes_of(input);
  const std::string others = bytes_of(other);
  Frames frames = frames_of(bytes);
  if (frames.bodies.empty() || below(4, random) == 0) {
    edit_bytes(bytes, others, random);
  } else {
    edit_frames(frames, frames_of(others), random);
    bytes = bytes_of(frames);
  }
  input = text_of(bytes);
}

}  // namespace rannc::fuzz
