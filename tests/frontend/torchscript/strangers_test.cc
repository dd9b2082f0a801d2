// Archives of strangers, as small as they are: what LibTorch would do with them, and what is said instead.
#include <caffe2/serialize/inline_container.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "frontend/torchscript/import.h"
#include "ir/base/replacement.h"

namespace rannc::test {
namespace {

using ::testing::HasSubstr;
using Records = std::map<std::string, std::string>;

constexpr const char* kCode = "code/__torch__.py";

std::string repeated(const std::string& text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

/// A class with these attributes and this body of forward.
std::string code(const std::string& body, const std::string& attributes = {}, const std::string& methods = {}) {
  return "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n" + attributes +
         "  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n" + body + methods;
}

std::string number(uint64_t value, size_t bytes) {
  return std::string(reinterpret_cast<const char*>(&value), bytes);  // little-endian
}
std::string text(const std::string& of) { return "X" + number(of.size(), 4) + of; }
std::string integer(int64_t value) { return "\x8a\x08" + number(static_cast<uint64_t>(value), 8); }

/// A module whose attribute `a`, if any, is what these instructions make.
std::string module_pickle(const std::string& attribute = {}) {
  return std::string("\x80\x02") + "c__torch__\nM\n)\x81}" + (attribute.empty() ? "" : text("a") + attribute + "s") +
         "b.";
}

/// A tensor of floats out of the record `data/0`.
std::string tensor(int64_t elements, int64_t offset, int64_t size, int64_t stride) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\nFloatStorage\n" + text("0") +
         text("cpu") + integer(elements) + "tQ" + integer(offset) + integer(size) + "\x85" + integer(stride) +
         "\x85\x89"
         "ccollections\nOrderedDict\n)RtR";
}

class Strangers : public ::testing::Test {
 protected:
  ~Strangers() override { std::filesystem::remove(path_); }

  /// What is said of an archive of a plain module with these records changed; empty: it is read.
  std::string said(const Records& changed) const {
    Records records = {
        {"data.pkl", module_pickle()}, {"constants.pkl", "\x80\x02)."}, {kCode, code("    return torch.relu(x)\n")}};
    for (const auto& [name, bytes] : changed) records[name] = bytes;
    std::filesystem::remove(path_);
    {
      caffe2::serialize::PyTorchStreamWriter writer(path_);
      for (const auto& [name, bytes] : records) writer.writeRecord(name, bytes.data(), bytes.size(), /*compress=*/true);
      writer.writeEndOfFile();
    }
    return read();
  }
  std::string read() const {
    const auto imported = frontend::read_torch(path_, {.inputs = {"x=f32[batch,4]"}});
    if (imported.ok()) return {};
    EXPECT_THAT(imported.diagnostic().where.file, path_);
    return imported.diagnostic().str();
  }
  std::string said_of(const std::string& body) const { return said({{kCode, code(body)}}); }
  std::string bytes() const { return read_file(path_).value(); }
  std::string said_of_bytes(const std::string& changed) const {
    std::ofstream(path_, std::ios::binary) << changed;
    return read();
  }

  std::string path_ = ::testing::TempDir() + "stranger-" + std::to_string(getpid()) + ".pt";
};

TEST_F(Strangers, PlainModulesAreRead) {
  EXPECT_EQ(said({}), "");
  EXPECT_EQ(said({{kCode, code("    return torch.add(x, self.a)\n", "  a : Tensor\n")},
                  {"data.pkl", module_pickle(tensor(4, 0, 4, 1))},
                  {"data/0", std::string(16, '\0')}}),
            "");
}

TEST_F(Strangers, CodeIsNotDeep) {
  constexpr size_t kMany = 20'000;
  const auto around = [](const std::string& open, const std::string& inner, const std::string& close) {
    return "    y = " + repeated(open, kMany) + inner + repeated(close, kMany) + "\n    return x\n";
  };
  std::string blocks;
  for (size_t i = 0; i < 1200; ++i) blocks += "    " + std::string(i, ' ') + "if True:\n";
  const std::map<std::string, std::string> bodies = {
      {"brackets", around("(", "x", ")")},
      {"lists", around("[", "1", "]")},
      {"minus", around("-", "x", "")},
      {"not", around("not ", "True", "")},
      {"sum", around("", "x", "+ x")},
      {"power", around("", "x", "** x")},
      {"comparison", around("", "1", " < 1")},
      {"subscripts", around("", "x", "[0]")},
      {"ternary", around("1 if True else ", "1", "")},
      {"type", "    y = annotate(" + repeated("List[", kMany) + "int" + repeated("]", kMany) + ", [])\n    return x\n"},
      {"branches", "    if True:\n      y = 1\n" + repeated("    elif True:\n      y = 1\n", kMany) + "    return x\n"},
      {"blocks", blocks + "    " + std::string(1200, ' ') + "y = 1\n    return x\n"}};
  for (const auto& [name, body] : bodies) {
    EXPECT_THAT(said_of(body), AllOf(HasSubstr("'code/__torch__.py:"), HasSubstr("deep or more; the limit is 1000")))
        << name;
  }
  EXPECT_THAT(said_of("    return x\n" + repeated("\n", 100'000)), HasSubstr("1000 lines in a row are empty"));
  EXPECT_THAT(said_of("    return x\n" + repeated("#\n", 100'000)), HasSubstr("1000 lines in a row are empty"));
}

TEST_F(Strangers, WhatLibTorchCompilesTwiceIsNotDeep) {
  for (const auto& [open, close] : {std::pair("(", ",)"), std::pair("x[", "]")}) {
    EXPECT_THAT(said_of("    y = " + repeated(open, 40) + "1" + repeated(close, 40) + "\n    return x\n"),
                HasSubstr("tuples and subscripts are nested more than 16 deep"));
  }
  EXPECT_EQ(said_of("    y = " + repeated("(", 8) + "1" + repeated(",)", 8) + "\n    return x\n"), "");
  EXPECT_EQ(said_of("    return " + repeated("torch.add(", 100) + "x" + repeated(", x)", 100) + "\n"), "");
  EXPECT_THAT(said_of(repeated("    if bool(x):\n      return x\n", 4000) + "    return x\n"),
              HasSubstr("more than 100 return, break and continue statements"));
}

/// Deeper than the stack of a process, one function in the other.
TEST_F(Strangers, FunctionsMayCallManyOthers) {
  constexpr int kMany = 2000;
  std::string methods;
  for (int i = 0; i < kMany; ++i) {
    const std::string call = i + 1 < kMany ? "(self).f" + std::to_string(i + 1) + "(x, )" : "x";
    methods +=
        "  def f" + std::to_string(i) + "(self: __torch__.M,\n    x: Tensor) -> Tensor:\n    return " + call + "\n";
  }
  EXPECT_THAT(said({{kCode, code("    return (self).f0(x, )\n", {}, methods)}}),
              HasSubstr("nested more than 200 deep"));
}

TEST_F(Strangers, RunNothingWhileTheyAreLoaded) {
  const std::string target = path_ + ".written";
  const std::string methods =
      "  def __getstate__(self: __torch__.M) -> int:\n    return 1\n"
      "  def __setstate__(self: __torch__.M,\n    s: int) -> NoneType:\n    torch.save([1], \"" +
      target + "\")\n    return None\n";
  EXPECT_THAT(said({{kCode, code("    return x\n", {}, methods)},
                    {"data.pkl",
                     "\x80\x02"
                     "c__torch__\nM\n)\x81K\x01"
                     "b."}}),
              HasSubstr("defines __setstate__, which LibTorch would run"));
  EXPECT_FALSE(std::filesystem::exists(target));
  EXPECT_THAT(said_of("    s = torch.ljust(\"a\", 1000000000)\n    print(s)\n    return x\n"), HasSubstr("uses ljust"));
  for (const char* use :
       {"s = torch . \\\n center(\"a\", 3)", "s = \"a\".zfill \\\n (3)", "s = (self).center(3)", "s = myself.center(3)",
        "s = (\"a\".center)(3)", "s = getattr(\"a\", \"center\")(3)", "s = self.s[0](3)",
        "f = \"a\".center\n    s = f(3)", "f = \"a\".center\n    g = f\n    s = (g)(3)",
        "f = g = getattr(\"a\", \"center\")\n    s = g(3)", "f : Any = \"a\".center\n    s = f(3)"})
    EXPECT_THAT(said_of(fmt::format("    {}\n    return x\n", use)), HasSubstr("which LibTorch may run")) << use;
  EXPECT_THAT(said_of("    f = __torch__.torch.nn.functional.nll_loss\n    return f(x)\n"),
              testing::Not(HasSubstr("which LibTorch may run")))
      << "as torch.jit.save writes calls of functions";
  for (const char* use : {"f = __torch__.center\n    s = f(3)", "f = __torch__.a(x)\n    s = f(3)"})
    EXPECT_THAT(said_of(fmt::format("    {}\n    return x\n", use)), HasSubstr("which LibTorch may run")) << use;
  EXPECT_EQ(said_of("    center = torch.relu(x)\n    return (center)\n"), "") << "a name like any other";
  for (const char* use : {"self.center", "x.center", "torch.relu(x.center)", "torch.add((x).center, x)"})
    EXPECT_THAT(said_of(fmt::format("    center = {}\n    return center\n", use)),
                testing::Not(HasSubstr("which LibTorch may run")))
        << use;
}

TEST_F(Strangers, PicklesAreNotDeep) {
  constexpr size_t kDeep = 1'000'000;
  const std::string start = "\x80\x02";
  EXPECT_THAT(said({{"data.pkl", start + repeated("]", kDeep) + repeated("a", kDeep - 1) + "."}}),
              AllOf(HasSubstr("'data.pkl'"), HasSubstr("objects are nested more than 500 deep")));
  EXPECT_THAT(said({{"constants.pkl", start + ")" + repeated("\x85", kDeep) + "."}}),
              AllOf(HasSubstr("'constants.pkl'"), HasSubstr("objects are nested more than 500 deep")));
  EXPECT_THAT(said({{"data.pkl", module_pickle("]" + std::string("q\0h\0a", 5))}}), HasSubstr("contains itself"));
  std::string doubled = "(" + std::string(")q\0", 3);
  for (char i = 0; i < 40; ++i) doubled += std::string("h") + i + "h" + i + "\x86q" + static_cast<char>(i + 1);
  EXPECT_THAT(said({{"constants.pkl", start + doubled + "t."}}), HasSubstr("describes more than"));
  const std::string type = repeated("List[", 20'000) + "int" + repeated("]", 20'000);
  EXPECT_THAT(said({{"data.pkl", module_pickle("ctorch.jit._pickle\nrestore_type_tag\n]" + text(type) + "\x86R")}}),
              HasSubstr("a type nests more than 16 deep"));
}

TEST_F(Strangers, PicklesAreWellFormed) {
  const std::string start = "\x80\x02";
  for (const std::string& wrong :
       {std::string(")r\xff\xff\xff\x7f."), std::string("X\xff\xff\xff\xfe."), std::string("}(K\x01u."),
        std::string("(K\x01"
                    "d."),
        std::string("K\x01\x85Q."), std::string("K\x00)R."), std::string("t."), std::string("h\x07."),
        std::string("cos\nsystem\n)R."), std::string("}(NNu0."), std::string("N")})
    EXPECT_THAT(said({{"constants.pkl", start + wrong}}), HasSubstr("'constants.pkl': error: the pickle, at byte"))
        << wrong;
}

/// LibTorch reads places of the author's code in `what()` of its exceptions, where another exception ends the process.
TEST_F(Strangers, PlacesOfTheAuthorsCodeAreWellFormed) {
  const std::string source = text("text") + "NK\x01\x87";
  const auto with = [&](const std::string& range) {
    return said({{kCode, code("    return torch.nothing(x)\n")},
                 {"code/__torch__.py.debug_pkl", std::string("\x80\x02K") + '\0' + range + "\x86\x85."}});
  };
  EXPECT_THAT(with(source + "K\x01K\x02\x87"), HasSubstr("cannot be read as TorchScript"));
  EXPECT_THAT(with(source + "NN\x87"), HasSubstr("a place of the author's code has another form"));
  EXPECT_THAT(with("N"), HasSubstr("a place of the author's code has another form"));
}

TEST_F(Strangers, TensorsLieInTheirRecords) {
  const auto with = [&](const std::string& made, size_t bytes = 16) {
    return said({{kCode, code("    return torch.add(x, self.a)\n", "  a : Tensor\n")},
                 {"data.pkl", module_pickle(made)},
                 {"data/0", std::string(bytes, '\0')}});
  };
  constexpr int64_t kFar = 1 << 28;
  EXPECT_THAT(with(tensor(kFar, 0, kFar, 1)),
              HasSubstr("has 268435456 elements of 4 bytes, but its record 'data/0' has 16"));
  EXPECT_THAT(with(tensor(4, 0, kFar, 1)), HasSubstr("reaches beyond its storage of 4 elements"));
  EXPECT_THAT(with(tensor(4, kFar, 4, 1)), HasSubstr("reaches beyond its storage of 4 elements"));
  EXPECT_THAT(with(tensor(4, -kFar, 4, 1)), HasSubstr("reaches beyond its storage of 4 elements"));
  EXPECT_THAT(with(tensor(4, 0, 2, INT64_MAX)), HasSubstr("reaches beyond its storage of 4 elements"));
  EXPECT_THAT(with(tensor(4, 0, int64_t{1} << 31, 0)), HasSubstr("not stored as they are read take more than"));
  const std::string many = "(" + repeated(tensor(1 << 20, 0, 4, 1), 30) + "l";
  EXPECT_THAT(with(many, 4 << 20), HasSubstr("it reads more than"));
}

TEST_F(Strangers, ArchivesDoNotExpand) {
  EXPECT_THAT(said({{"extra/zeros", std::string(80'000'000, '\0')}}),
              AllOf(HasSubstr("extra/zeros"), HasSubstr("unpacks to more than")));
  EXPECT_THAT(said({{kCode, code("    return x\n") + "#" + std::string(10'000'000, ' ')}}),
              HasSubstr("the code and pickles of the archive have more than"));
  EXPECT_THAT(said({{"model.json", "{}"}}), HasSubstr("older than 1.4"));
}

TEST_F(Strangers, VersionsAreNumbers) {
  for (const std::string& version : {std::string(30, '9'), std::string("none"), std::string()})
    EXPECT_THAT(said({{".data/version", version}}), HasSubstr("cannot be read as ")) << version;
}

TEST_F(Strangers, EntriesAreApart) {
  ASSERT_EQ(said({}), "");
  const std::string good = bytes();
  const size_t first = good.find("PK\1\2"), second = good.find("PK\1\2", first + 1);
  ASSERT_NE(second, std::string::npos);
  std::string changed = good;
  changed.replace(second + 42, 4, good.substr(first + 42, 4));
  EXPECT_THAT(said_of_bytes(changed), HasSubstr("within '"));
  changed = good;
  changed.replace(first + 20, 4, "\xf0\xff\xff\x0f");
  EXPECT_THAT(said_of_bytes(changed), HasSubstr("but the file has"));
  EXPECT_THAT(said_of_bytes(good.substr(0, good.size() - 30)), HasSubstr("no complete directory"));
}

}  // namespace
}  // namespace rannc::test
