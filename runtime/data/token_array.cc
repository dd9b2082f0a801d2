// Formats of token files and their magic numbers:
// - .npy, .safetensors: see npy_folder.cc and safetensors.h
// - llm.c: 256 int32, of which the first three are the magic number, the version and the number of tokens
//   (https://github.com/karpathy/llm.c, dev/data/data_common.py)
// - Megatron: tokens in name.bin; name.idx has the type of the tokens and the places of documents
//   (https://github.com/NVIDIA/Megatron-LM, megatron/core/datasets/indexed_dataset.py)
#include "runtime/data/internal/token_array.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <vector>

#include "runtime/bundle/safetensors.h"
#include "runtime/data/internal/foreign_format.h"
#include "runtime/data/internal/npy_folder.h"
#include "runtime/data/internal/token_width.h"

namespace rannc::runtime {

namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

/// Reads a number of the machine's byte order, which is little-endian.
template <class Number>
Number number_at(std::string_view bytes, uint64_t at) {
  Number number{};
  RANNC_CHECK(at + sizeof(Number) <= bytes.size()) << "checked by the caller";
  std::memcpy(&number, bytes.data() + at, sizeof(Number));
  return number;
}

bool is_at(std::string_view bytes, size_t at, std::string_view magic) {
  return bytes.size() >= at + magic.size() && bytes.substr(at, magic.size()) == magic;
}

struct Found {
  std::string_view format;
  ir::DType type = ir::DType::kU16;
  uint64_t offset = 0, tokens = 0;
};

Result<Found> of_tensor(const Location& where, std::string_view format, const TensorSpec& spec, uint64_t offset) {
  if (!ir::is_integer(spec.dtype))
    return error(where, fmt::format("has {} numbers, but tokens are integers", type_name(spec.dtype)));
  if (spec.shape.empty() || spec.shape.size() > 2)
    return error(where, fmt::format("has {} axes; tokens have one or two", spec.shape.size()));
  return Found{format, spec.dtype, offset, spec.bytes() / ir::byte_size(spec.dtype)};
}

bool is_safetensors(std::string_view bytes) {
  return bytes.size() > 10 && number_at<uint64_t>(bytes, 0) <= bytes.size() - 8 && bytes[8] == '{' &&
         "\"} \n"sv.find(bytes[9]) != std::string_view::npos;
}

Result<Found> of_safetensors(const std::string& path, std::string_view bytes) {
  RANNC_ASSIGN(const SafetensorsFile file, SafetensorsFile::open(path));
  std::vector<const SafetensorsFile::Entry*> integers;
  for (const SafetensorsFile::Entry& entry : file.entries()) {
    if (ir::is_integer(entry.spec.dtype)) integers.push_back(&entry);
  }
  if (integers.size() != 1) {
    return error({path, 0, 0, {}},
                 fmt::format("has {} tensors of integers, expected one with the tokens{}", integers.size(),
                             integers.size() < 2 ? ""
                                                 : fmt::format(": '{}', '{}'{}", integers[0]->name, integers[1]->name,
                                                               integers.size() > 2 ? ", …" : "")))
        .note("a file of inputs and labels goes to --data");
  }
  const SafetensorsFile::Entry& tokens = *integers[0];
  if (tokens.offset + tokens.spec.bytes() > bytes.size())
    return error({path, 0, 0, tokens.name}, "the file was truncated while it was opened");
  return of_tensor({path, 0, 0, tokens.name}, ".safetensors", tokens.spec, tokens.offset);
}

struct LlmC {
  int32_t magic, version;
  ir::DType type;
};
constexpr std::array kLlmC = {LlmC{20240520, 1, ir::DType::kU16}, LlmC{20240801, 7, ir::DType::kU32}};
constexpr uint64_t kLlmCHeader = 256 * sizeof(int32_t);

Result<Found> of_llm_c(const Location& where, std::string_view bytes, const LlmC& kind) {
  if (bytes.size() < kLlmCHeader) {
    return error(where,
                 fmt::format("has {} bytes, but the header of a llm.c file alone has {}", bytes.size(), kLlmCHeader));
  }
  if (const auto version = number_at<int32_t>(bytes, 4); version != kind.version)
    return error(where, fmt::format("is a llm.c file of version {}, expected {}", version, kind.version));
  const auto count = number_at<int32_t>(bytes, 8);
  const uint64_t size = bytes.size() - kLlmCHeader, width = ir::byte_size(kind.type);
  if (count < 0 || static_cast<uint64_t>(count) * width != size) {
    return error(where, fmt::format("has {} {} tokens by its llm.c header, but {} bytes of them", count,
                                    type_name(kind.type), size));
  }
  return Found{"llm.c", kind.type, kLlmCHeader, static_cast<uint64_t>(count)};
}

constexpr std::string_view kMegatronMagic = "MMIDIDX\0\0"sv;

/// Type by Megatron's code.
std::optional<ir::DType> megatron_type(uint8_t code) {
  constexpr std::array kTypes = {ir::DType::kU8,  ir::DType::kI8,  ir::DType::kI16, ir::DType::kI32,
                                 ir::DType::kI64, ir::DType::kF64, ir::DType::kF32, ir::DType::kU16};
  return code >= 1 && code <= kTypes.size() ? std::optional(kTypes[code - 1]) : std::nullopt;
}

/// Reads the index of a file of `size` bytes.
Result<Found> of_megatron(const Location& where, std::string_view index, uint64_t size) {
  constexpr uint64_t kCode = 17, kCounts = 18, kHeader = 34;
  if (index.size() < kHeader) return error(where, "is too short for an index of Megatron");
  const auto version = number_at<uint64_t>(index, kMegatronMagic.size());
  if (version != 1) return error(where, fmt::format("is an index of Megatron of version {}, expected 1", version));
  const auto code = number_at<uint8_t>(index, kCode);
  const auto type = megatron_type(code);
  if (!type || !ir::is_integer(*type))
    return error(where, fmt::format("specifies no integer type of the tokens: its code is {}", code));
  const auto sequences = number_at<uint64_t>(index, kCounts), documents = number_at<uint64_t>(index, kCounts + 8);
  const uint64_t rest = index.size() - kHeader, width = ir::byte_size(*type);
  const bool possible = sequences <= rest / 12 && documents <= rest / 8;
  const uint64_t plain = possible ? 12 * sequences + 8 * documents : 0;
  if (!possible || (rest != plain && rest != plain + sequences)) {  // the latter with a mode per sequence
    return error(where, fmt::format("has {} bytes, which do not match its {} sequences and {} documents", index.size(),
                                    sequences, documents));
  }
  uint64_t end = 0;
  if (sequences > 0) {
    const auto length = number_at<int32_t>(index, kHeader + 4 * (sequences - 1));
    const auto begin = number_at<int64_t>(index, kHeader + 4 * sequences + 8 * (sequences - 1));
    if (length >= 0 && begin >= 0) end = static_cast<uint64_t>(begin) + width * static_cast<uint64_t>(length);
  }
  if (end != size) {
    return error(where, fmt::format("ends after {} bytes of tokens, but the .bin file has {}", end, size));
  }
  return Found{"Megatron", *type, 0, size / width};
}

/// Returns the index beside a .bin file; nullopt if there is none of Megatron.
std::optional<MappedFile> index_beside(const std::string& path) {
  fs::path index = path;
  if (index.extension() != ".bin") return std::nullopt;
  auto opened = MappedFile::open(index.replace_extension(".idx"));
  if (!opened.ok() || !is_at(opened->bytes(), 0, kMegatronMagic)) return std::nullopt;
  return *std::move(opened);
}

/// Returns the tokens of a file that specifies their type; nullopt if it does not.
Result<std::optional<Found>> find_typed(const std::string& path, std::string_view bytes) {
  const Location where{path, 0, 0, {}};
  const auto some = [](Result<Found> found) -> Result<std::optional<Found>> {
    if (!found.ok()) return std::move(found).diagnostic();
    return std::optional(*found);
  };
  if (const auto index = index_beside(path))
    return some(of_megatron({fs::path(path).replace_extension(".idx").string()}, index->bytes(), bytes.size()));
  if (is_at(bytes, 0, "\x93NUMPY")) {
    RANNC_ASSIGN(const NpyHeader header, read_npy_header(bytes, where));
    return some(of_tensor(where, ".npy", header.spec, header.offset));
  }
  if (is_safetensors(bytes)) return some(of_safetensors(path, bytes));
  for (const LlmC& kind : kLlmC) {
    if (bytes.size() >= 12 && number_at<int32_t>(bytes, 0) == kind.magic) return some(of_llm_c(where, bytes, kind));
  }
  return std::optional<Found>();
}

Result<void> check_width(const std::string& path, std::string_view bytes, ir::DType type) {
  const std::string_view wider = wider_type(bytes, ir::byte_size(type));
  if (wider.empty()) return {};
  const bool floats = wider.starts_with("float");
  return error({path, 0, 0, {}}, fmt::format("has no header, and looks like a file of {} {}, not of {} tokens", wider,
                                             floats ? "numbers" : "tokens", type_name(type)))
      .note(floats
                ? "write them as integers"
                : "specify the type: --token-type uint16, uint32, int32 or int64; or write a .npy file, which has it");
}

/// Returns the tokens of a file without a header.
Result<Found> of_raw(const std::string& path, std::string_view bytes, const RawTokens& raw) {
  if (!raw.as_text) RANNC_TRY(check_not_foreign(path, bytes));
  const uint64_t width = ir::byte_size(raw.type);
  if (bytes.size() % width != 0) {
    return error({path, 0, 0, {}}, fmt::format("has {} bytes, which is no multiple of the {} bytes of a {} token",
                                               bytes.size(), width, type_name(raw.type)));
  }
  if (!raw.explicit_type) RANNC_TRY(check_width(path, bytes, raw.type));
  return Found{{}, raw.type, 0, bytes.size() / width};
}

/// Returns the .bin file of an index of Megatron, else `path`.
Result<std::string> tokens_of(const std::string& path) {
  if (fs::path(path).extension() != ".idx") return path;
  RANNC_ASSIGN(const MappedFile index, MappedFile::open(path));
  if (!is_at(index.bytes(), 0, kMegatronMagic)) return path;
  return fs::path(path).replace_extension(".bin").string();
}

}  // namespace

std::string type_name(ir::DType type) {
  const std::string_view name = ir::str(type);
  const std::string_view kind = name[0] == 'u' ? "uint" : name[0] == 'i' ? "int" : name[0] == 'f' ? "float" : name;
  return kind == name ? std::string(name) : fmt::format("{}{}", kind, name.substr(1));
}

Result<TokenArray> open_token_array(const std::string& named, const RawTokens& raw) {
  RANNC_ASSIGN(const std::string path, raw.as_text ? named : tokens_of(named));
  RANNC_ASSIGN(MappedFile file, MappedFile::open(path));
  std::optional<Found> found;
  if (!raw.as_text) {
    RANNC_ASSIGN(found, find_typed(path, file.bytes()));
  }
  if (!found) {
    RANNC_ASSIGN(found, of_raw(path, file.bytes(), raw));
  }
  if (found->tokens == 0) return error({path, 0, 0, {}}, "has no tokens");
  if (raw.explicit_type && found->type != raw.type) {
    return error({path, 0, 0, {}}, fmt::format("has {} tokens, as it specifies itself, not the explicit {}",
                                               type_name(found->type), type_name(raw.type)));
  }
  return TokenArray{path, std::move(file), found->format, found->type, found->offset, found->tokens};
}

}  // namespace rannc::runtime
