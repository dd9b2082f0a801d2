#include "tools/run/tensorboard_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <boost/crc.hpp>
#include <chrono>
#include <filesystem>

namespace rannc::tools {

namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

template <typename T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// The wire format of Protocol Buffers. LibTorch exports symbols of its own copy of the library, so these five fields
// are written without it.
std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string key(uint64_t field, uint64_t wire_type) { return varint(field << 3 | wire_type); }
std::string number(uint64_t field, uint64_t value) { return key(field, 0) + varint(value); }
std::string float64(uint64_t field, double value) { return key(field, 1) + bytes_of(value); }
std::string float32(uint64_t field, float value) { return key(field, 5) + bytes_of(value); }
std::string nested(uint64_t field, const std::string& message) {
  return key(field, 2) + varint(message.size()) + message;
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// Event: wall_time 1, step 2, file_version 3, summary 5, session_log 7.
std::string event(uint64_t step, const std::string& what) { return float64(1, now()) + number(2, step) + what; }
/// Summary: value 1. Value: tag 1, simple_value 2.
std::string scalar(const std::string& tag, double value) {
  return nested(1, nested(1, tag) + float32(2, static_cast<float>(value)));
}
/// SessionLog: status 1, of which START is 1.
const std::string kStart = nested(7, number(1, 1));

/// The checksum of TFRecord: CRC-32C, rotated and offset, so that checksums of checksums differ.
uint32_t masked_crc(const std::string& bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return std::rotr(crc.checksum(), 15) + 0xA282EAD8U;
}

}  // namespace

Result<TensorBoardLog> TensorBoardLog::open(const std::string& folder, uint64_t done) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return error({.file = folder}, "cannot be created: " + failed.message());
  TensorBoardLog log((fs::path(folder) / fmt::format("events.out.tfevents.{:.6f}.{}", now(), getpid())).string());
  log.file_.open(log.path_, std::ios::binary);
  if (!log.file_) return error({.file = log.path_}, "cannot be written");
  RANNC_TRY(log.write(event(0, nested(3, "brain.Event:2"))));
  if (done > 0) RANNC_TRY(log.write(event(done + 1, kStart)));
  return log;
}

Result<void> TensorBoardLog::add(const StepFacts& facts) {
  std::string summary;
  for (const auto& [name, value] : measurements(facts)) summary += scalar(name, value);
  for (const auto& [name, number] : facts.metrics) summary += scalar("metrics/" + name, number);
  if (facts.validation) {
    for (const auto& [name, mean] : facts.validation->metrics) summary += scalar("validation_metrics/" + name, mean);
  }
  return write(event(facts.done, nested(5, summary)));
}

Result<void> TensorBoardLog::write(const std::string& event) {
  const std::string length = bytes_of<uint64_t>(event.size());
  file_ << length << bytes_of(masked_crc(length)) << event << bytes_of(masked_crc(event)) << std::flush;
  if (!file_) return error({.file = path_}, "cannot be written");
  return {};
}

}  // namespace rannc::tools
