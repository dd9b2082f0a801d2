// Formats by their magic numbers, and text by its bytes.
#include "runtime/data/internal/foreign_format.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <optional>

namespace rannc::runtime {

namespace {

using namespace std::string_view_literals;

bool is_at(std::string_view bytes, size_t at, std::string_view magic) {
  return bytes.size() >= at + magic.size() && bytes.substr(at, magic.size()) == magic;
}

enum class Advice : uint8_t { kSave, kParquet, kArrow, kArrowStream, kJson, kText, kDecompress, kUnpack, kTorch };

struct Foreign {
  std::string_view name;
  Advice advice = Advice::kSave;
};

struct Magic {
  Foreign format;
  std::string_view bytes;
  size_t at = 0;
};

constexpr std::array kMagics = {
    Magic{{"a Parquet file", Advice::kParquet}, "PAR1"},
    Magic{{"an Arrow file", Advice::kArrow}, "ARROW1"},
    Magic{{"a Feather file", Advice::kArrow}, "FEA1"},
    Magic{{"an ORC file"}, "ORC\x0a"},
    Magic{{"an Avro file"}, "Obj\x01"},
    Magic{{"an HDF5 file"}, "\x89HDF\r\n\x1a\n"},
    Magic{{"an SQLite database"}, "SQLite format 3\0"sv},
    Magic{{"a zip archive, such as .npz and .pt", Advice::kTorch}, "PK\x03\x04"},
    Magic{{"a 7z archive", Advice::kUnpack}, "7z\xbc\xaf\x27\x1c"},
    Magic{{"a tar archive", Advice::kUnpack}, "ustar", 257},
    Magic{{"compressed by gzip", Advice::kDecompress}, "\x1f\x8b\x08"},
    Magic{{"compressed by zstd", Advice::kDecompress}, "\x28\xb5\x2f\xfd"},
    Magic{{"compressed by lz4", Advice::kDecompress}, "\x04\x22\x4d\x18"},
    Magic{{"compressed by xz", Advice::kDecompress},
          "\xfd"
          "7zXZ\0"sv},
    Magic{{"compressed by bzip2", Advice::kDecompress}, "1AY&SY", 4},
    Magic{{"a GGUF model"}, "GGUF"},
    Magic{{"a packed data set (LITPKDS)"}, "LITPKDS"},
    Magic{{"an index of fairseq's older format"}, "TNTIDX\0\0"sv},
    Magic{{"an evaluation set of llm.c"}, "\x8a\xd8\x34\x01"},
    Magic{{"a model of llm.c"}, "\xc6\xd7\x34\x01"},
};

bool is_pickle(std::string_view bytes) {
  if (bytes.size() < 4 || bytes[0] != '\x80' || bytes[1] < 2 || bytes[1] > 5 || bytes.back() != '.') return false;
  return bytes[1] >= 4 ? bytes[2] == '\x95' : "]}(cX)K\x8a"sv.find(bytes[2]) != std::string_view::npos;
}

/// Whether a stream of Arrow begins here: -1 and the size of a flatbuffer.
bool is_arrow_stream(std::string_view bytes) {
  if (bytes.size() < 16 || !bytes.starts_with("\xff\xff\xff\xff")) return false;
  int32_t size = 0;
  std::memcpy(&size, bytes.data() + 4, sizeof(size));
  return size >= 16 && size % 8 == 0 && static_cast<uint64_t>(size) < bytes.size();
}

/// Whether the first bytes are UTF-8 without control characters.
bool is_text(std::string_view bytes) {
  constexpr size_t kLeast = 16, kExamined = 4096;
  if (bytes.size() < kLeast) return false;
  const bool whole = bytes.size() <= kExamined;
  bytes = bytes.substr(0, kExamined);
  for (size_t i = 0; i < bytes.size();) {
    const auto first = static_cast<unsigned char>(bytes[i]);
    const bool control = first < 0x20 && "\t\n\r\f"sv.find(bytes[i]) == std::string_view::npos;
    if (control || (first >= 0x7f && first < 0xc2) || first > 0xf4) return false;
    const size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    for (size_t k = 1; k < length && i + k < bytes.size(); ++k) {
      if ((static_cast<unsigned char>(bytes[i + k]) & 0xc0) != 0x80) return false;
    }
    if (i + length > bytes.size()) return !whole;
    i += length;
  }
  return true;
}

std::optional<Foreign> foreign_format(std::string_view bytes) {
  for (const Magic& magic : kMagics) {
    if (is_at(bytes, magic.at, magic.bytes)) return magic.format;
  }
  if (is_pickle(bytes)) return Foreign{"a Python pickle", Advice::kTorch};
  if (is_arrow_stream(bytes)) return Foreign{"a stream of Arrow", Advice::kArrowStream};
  if (!is_text(bytes)) return std::nullopt;
  const size_t first = bytes.find_first_not_of(" \t\r\n\f");
  if (first != std::string_view::npos && (bytes[first] == '{' || bytes[first] == '['))
    return Foreign{"JSON text", Advice::kJson};
  return Foreign{"text", Advice::kText};
}

std::string advice_of(Advice advice, const std::string& path) {
  constexpr std::string_view kConvert =
      "convert it in Python, if its tokens are in a column `input_ids`:\n    {}\n"
      "    numpy.save(\"tokens.npy\", numpy.concatenate({}))\n"
      "  note: text that is not encoded yet goes to a file for --text and --tokenizer";
  switch (advice) {
    case Advice::kParquet:
      return fmt::format(kConvert, "import numpy, pyarrow.parquet as parquet",
                         fmt::format("parquet.read_table(\"{}\")[\"input_ids\"].to_numpy()", path));
    case Advice::kArrow:
      return fmt::format(kConvert, "import numpy, pyarrow.feather as feather",
                         fmt::format("feather.read_table(\"{}\")[\"input_ids\"].to_numpy()", path));
    case Advice::kArrowStream:
      return fmt::format(
          kConvert, "import numpy, pyarrow",
          fmt::format("pyarrow.ipc.open_stream(open(\"{}\", \"rb\")).read_all()[\"input_ids\"].to_numpy()", path));
    case Advice::kJson:
      return fmt::format(kConvert, "import json, numpy",
                         fmt::format("[json.loads(line)[\"input_ids\"] for line in open(\"{}\")]", path));
    case Advice::kText:
      return "use it with --text, and with --tokenizer if its tokens are no bytes";
    case Advice::kDecompress:
      return "decompress it first";
    case Advice::kUnpack:
      return "unpack it first";
    case Advice::kTorch:
      return "load it in Python and write its tokens as a .npy file: numpy.save(\"tokens.npy\", tokens)";
    case Advice::kSave:
      break;
  }
  return "write its tokens as a .npy file, in Python by numpy.save(\"tokens.npy\", tokens)";
}

}  // namespace

Result<void> check_not_foreign(const std::string& path, std::string_view bytes) {
  const auto format = foreign_format(bytes);
  if (!format) return {};
  return error({path, 0, 0, {}}, fmt::format("is {}, not a file of tokens", format->name))
      .note(advice_of(format->advice, path));
}

}  // namespace rannc::runtime
