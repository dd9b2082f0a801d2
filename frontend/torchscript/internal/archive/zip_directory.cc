// Zip archives as PKWARE's APPNOTE.TXT describes them (sections 4.3.12 to 4.3.16 and 4.5.3).
#include "frontend/torchscript/internal/archive/zip_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace rannc::frontend::torchscript {

namespace {

constexpr uint64_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56, kEntryBytes = 46, kLocalBytes = 30;
constexpr uint64_t kMostComment = 65535;
constexpr uint32_t kEndMark = 0x06054b50, kLocatorMark = 0x07064b50, kEnd64Mark = 0x06064b50, kEntryMark = 0x02014b50;
constexpr uint32_t kIn64 = 0xffffffff;

/// Reads a number of the machine's byte order, which is little-endian.
template <class Number>
Number number_at(std::string_view bytes, uint64_t at) {
  Number number{};
  RANNC_CHECK(at + sizeof(Number) <= bytes.size()) << "checked by the caller";
  std::memcpy(&number, bytes.data() + at, sizeof(Number));
  return number;
}

/// Where the directory lies.
struct DirectoryPlace {
  uint64_t offset = 0, bytes = 0, entries = 0;
};

/// A range of the file that an entry takes.
struct TakenRange {
  uint64_t begin = 0, end = 0;
  std::string name;
};

class DirectoryReader {
 public:
  DirectoryReader(const caffe2::serialize::ReadAdapterInterface& file, const std::string& path)
      : file_(file), path_(path) {}

  Result<ZipDirectory> run() {
    const auto place = find();
    if (!place) return fail({}, "has no complete directory of a zip archive: it is damaged or was cut off");
    const std::string bytes = read(place->offset, place->bytes);
    if (bytes.size() != place->bytes) return fail({}, "has a directory that reaches beyond its end");
    uint64_t at = 0;
    for (uint64_t i = 0; i < place->entries; ++i) {
      if (bytes.size() - at < kEntryBytes || number_at<uint32_t>(bytes, at) != kEntryMark)
        return fail({}, fmt::format("has {} entries in its directory, but declares {}", i, place->entries));
      RANNC_TRY(add(std::string_view(bytes).substr(at), at));
    }
    RANNC_TRY(check_overlaps());
    return std::move(directory_);
  }

 private:
  Diagnostic fail(const std::string& name, std::string message) const {
    return error({path_, 0, 0, name}, std::move(message));
  }

  std::string read(uint64_t offset, uint64_t bytes) const {
    if (offset > file_.size() || bytes > file_.size() - offset) return {};
    std::string made(bytes, '\0');
    made.resize(file_.read(offset, made.data(), bytes, "directory"));
    return made;
  }

  // The last end record of the file, which a comment may follow.
  std::optional<DirectoryPlace> find() const {
    const uint64_t tail = std::min<uint64_t>(file_.size(), kEndBytes + kMostComment);
    const uint64_t begin = file_.size() - tail;
    const std::string bytes = read(begin, tail);
    for (uint64_t at = bytes.size() < kEndBytes ? 0 : bytes.size() - kEndBytes + 1; at-- > 0;) {
      if (number_at<uint32_t>(bytes, at) == kEndMark) return place(std::string_view(bytes).substr(at), begin + at);
    }
    return std::nullopt;
  }

  std::optional<DirectoryPlace> place(std::string_view end, uint64_t at) const {
    const std::string locator = at < kLocatorBytes ? std::string() : read(at - kLocatorBytes, kLocatorBytes);
    if (locator.size() == kLocatorBytes && number_at<uint32_t>(locator, 0) == kLocatorMark) {
      const std::string end64 = read(number_at<uint64_t>(locator, 8), kEnd64Bytes);
      if (end64.size() == kEnd64Bytes && number_at<uint32_t>(end64, 0) == kEnd64Mark)
        return DirectoryPlace{number_at<uint64_t>(end64, 48), number_at<uint64_t>(end64, 40),
                              number_at<uint64_t>(end64, 32)};
    }
    return DirectoryPlace{number_at<uint32_t>(end, 16), number_at<uint32_t>(end, 12), number_at<uint16_t>(end, 10)};
  }

  // `bytes` begin with the entry; `at` moves behind it.
  Result<void> add(std::string_view bytes, uint64_t& at) {
    const uint64_t name_bytes = number_at<uint16_t>(bytes, 28), extra_bytes = number_at<uint16_t>(bytes, 30);
    const uint64_t all = kEntryBytes + name_bytes + extra_bytes + number_at<uint16_t>(bytes, 32);
    if (all > bytes.size()) return fail({}, "has a directory that is cut off");
    at += all;
    const std::string name(bytes.substr(kEntryBytes, name_bytes));
    ZipEntry entry{number_at<uint32_t>(bytes, 20), number_at<uint32_t>(bytes, 24)};
    uint64_t offset = number_at<uint32_t>(bytes, 42);
    read_extra(bytes.substr(kEntryBytes + name_bytes, extra_bytes), entry, offset);
    if (offset > file_.size() || entry.packed > file_.size() - offset) {
      return fail(name, fmt::format("the entry lies at byte {} and has {}, but the file has {} bytes", offset,
                                    entry.packed, file_.size()));
    }
    unpacked_ = entry.bytes > UINT64_MAX - unpacked_ ? UINT64_MAX : unpacked_ + entry.bytes;
    if (unpacked_ > most_unpacked(file_.size())) {
      return fail(name, fmt::format("with this entry of {} bytes the archive unpacks to more than {} bytes, the limit "
                                    "for a file of {}",
                                    entry.bytes, most_unpacked(file_.size()), file_.size()));
    }
    taken_.push_back({offset, offset + kLocalBytes + name_bytes + entry.packed, name});
    std::string key = name.substr(name.find('/') + 1);
    for (char& c : key) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (!directory_.emplace(std::move(key), entry).second)
      return fail(name, "the archive has two entries of this name");
    return {};
  }

  // Numbers that need 64 bits, in this order where the fields of 32 bits are full.
  static void read_extra(std::string_view extra, ZipEntry& entry, uint64_t& offset) {
    while (extra.size() >= 4) {
      const uint64_t size = std::min<uint64_t>(number_at<uint16_t>(extra, 2), extra.size() - 4);
      if (number_at<uint16_t>(extra, 0) == 1) {
        std::string_view numbers = extra.substr(4, size);
        for (uint64_t* const field : {&entry.bytes, &entry.packed, &offset}) {
          if (*field != kIn64 || numbers.size() < sizeof(uint64_t)) continue;
          *field = number_at<uint64_t>(numbers, 0);
          numbers.remove_prefix(sizeof(uint64_t));
        }
      }
      extra.remove_prefix(4 + size);
    }
  }

  Result<void> check_overlaps() {
    std::sort(taken_.begin(), taken_.end(), [](const TakenRange& a, const TakenRange& b) { return a.begin < b.begin; });
    for (size_t i = 1; i < taken_.size(); ++i) {
      if (taken_[i].begin >= taken_[i - 1].end) continue;
      return fail(taken_[i].name, fmt::format("the entry begins at byte {}, within '{}', which ends at {}",
                                              taken_[i].begin, taken_[i - 1].name, taken_[i - 1].end));
    }
    return {};
  }

  const caffe2::serialize::ReadAdapterInterface& file_;
  const std::string& path_;
  ZipDirectory directory_;
  std::vector<TakenRange> taken_;
  uint64_t unpacked_ = 0;
};

}  // namespace

Result<ZipDirectory> read_zip_directory(const caffe2::serialize::ReadAdapterInterface& file, const std::string& path) {
  return DirectoryReader(file, path).run();
}

}  // namespace rannc::frontend::torchscript
