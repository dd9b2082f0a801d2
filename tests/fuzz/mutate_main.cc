/// Drives a fuzz target without libFuzzer: feeds it every seed and a fixed number of mutations of the seeds.
///
/// usage: TARGET RUNS SEED-FILE… Every seed must be accepted; a mutation need not be. An input that ends the process stays in TARGET.input, which can be given as the only
/// seed with RUNS 0. The mutations depend on nothing but the seeds, so every run is the same.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/target.h"

namespace {

constexpr uint64_t kGeneratorSeed = 20;
// Texts and lengths that parsers are prone to take badly.
const std::vector<std::string> kPieces = {"0",    "-1",  "18446744073709551616", "1e308", "nan", "\"",  "{", "}",
                                          "[",    "]",   "%",                    "@",     "#",   "//",  "=", "\n",
                                          "\xff", "*B*", std::string(8, '\0'),   "((((",  ",,",  "s0//0"};

class Mutator {
 public:
  explicit Mutator(std::vector<std::string> seeds) : seeds_(std::move(seeds)) {}

  /// A seed after one to four random edits.
  std::string next() {
    std::string input = pick(seeds_);
    for (size_t edits = 1 + below(4); edits > 0; --edits) edit(input);
    return input;
  }

 private:
  size_t below(size_t bound) { return generator_() % bound; }
  const std::string& pick(const std::vector<std::string>& from) { return from[below(from.size())]; }

  void edit(std::string& input) {
    const size_t at = below(input.size() + 1);
    const size_t length = 1 + below(32);
    switch (below(7)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        break;
      case 1:
        input.erase(at, length);
        break;
      case 2:
        input.insert(at, input.substr(at, length));
        break;
      case 3:
        input.resize(at);
        break;
      case 4:
        input.insert(at, pick(kPieces));
        break;
      case 5:
        replace_number(input, at);
        break;
      default:
        input.replace(at, std::string::npos, tail(pick(seeds_)));
        break;
    }
  }

  std::string tail(const std::string& text) { return text.substr(below(text.size() + 1)); }

  void replace_number(std::string& input, size_t at) {
    const size_t begin = input.find_first_of("0123456789", at);
    if (begin == std::string::npos) return;
    const size_t end = input.find_first_not_of("0123456789", begin);
    input.replace(begin, end == std::string::npos ? end : end - begin, pick(kPieces));
  }

  std::vector<std::string> seeds_;
  std::mt19937_64 generator_{kGeneratorSeed};
};

/// The file stays open: closing it after each input would have the disk written every time.
bool feed(const std::string& input, std::FILE* record) {
  std::rewind(record);
  std::fwrite(input.data(), 1, input.size(), record);
  std::fflush(record);
  if (ftruncate(fileno(record), static_cast<off_t>(input.size())) != 0) std::abort();
  return rannc::fuzz::feed(input);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "usage: %s RUNS SEED-FILE...\n", arguments[0]);
    return 2;
  }
  std::vector<std::string> seeds;
  for (int i = 2; i < count; ++i) {
    std::ifstream file(arguments[i], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "%s: cannot be read\n", arguments[i]);
      return 2;
    }
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  const std::string record_path = std::string(arguments[0]) + ".input";
  std::FILE* record = std::fopen(record_path.c_str(), "wb");
  if (record == nullptr) {
    std::perror(record_path.c_str());
    return 2;
  }
  const long runs = std::atol(arguments[1]);
  for (size_t i = 0; i < seeds.size(); ++i) {
    if (feed(seeds[i], record)) continue;
    std::fprintf(stderr, "%s: a seed is not accepted\n", arguments[2 + i]);
    return 1;
  }
  Mutator mutator(seeds);
  long accepted = 0;
  for (long run = 0; run < runs; ++run) accepted += feed(mutator.next(), record);
  std::fclose(record);
  std::remove(record_path.c_str());
  std::printf("%zu seeds; of %ld mutations %ld were accepted, the others ended in a diagnostic\n", seeds.size(), runs,
              accepted);
  return 0;
}
