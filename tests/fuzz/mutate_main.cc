/// Drives a fuzz target without libFuzzer: feeds it every seed and a fixed number of mutations of the seeds.
///
/// usage: TARGET RUNS SEED-FILE… Every seed must be accepted; a mutation need not be. An input that ends the process,
/// or takes longer than a minute of its time, stays in TARGET.input, which can be given as the only seed with RUNS 0.
/// `--also FOLDER` adds the files of a folder and of those in it as further seeds, which need not be accepted. The
/// mutations depend on nothing but the seeds, so every run is the same.
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "tests/fuzz/target.h"

namespace {

constexpr uint64_t kGeneratorSeed = 20;
constexpr time_t kMostSeconds = 60;  // of the process; an input takes milliseconds

std::optional<std::string> read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

/// The process ends by SIGVTALRM unless this is called again in time.
void allow_more_time() {
  const itimerval limit = {{0, 0}, {kMostSeconds, 0}};
  setitimer(ITIMER_VIRTUAL, &limit, nullptr);
}

/// The file stays open: closing it after each input would have the disk written every time.
bool feed(const std::string& input, std::FILE* record) {
  std::rewind(record);
  std::fwrite(input.data(), 1, input.size(), record);
  std::fflush(record);
  if (ftruncate(fileno(record), static_cast<off_t>(input.size())) != 0) std::abort();
  allow_more_time();
  return rannc::fuzz::feed(input);
}

/// A seed after one to four random edits.
std::string mutated(const std::vector<std::string>& seeds, rannc::fuzz::Random& random) {
  const auto any = [&]() -> const std::string& { return seeds[rannc::fuzz::below(seeds.size(), random)]; };
  std::string input = any();
  for (size_t edits = 1 + rannc::fuzz::below(4, random); edits > 0; --edits) rannc::fuzz::edit(input, any(), random);
  return input;
}

void add_folder(const std::filesystem::path& folder, std::vector<std::string>& seeds) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) seeds.push_back(read(file).value_or(""));
}

int run(const char* program, long runs, const std::vector<std::string>& seeds) {
  const std::string record_path = std::string(program) + ".input";
  std::FILE* record = std::fopen(record_path.c_str(), "wb");
  if (record == nullptr) {
    std::perror(record_path.c_str());
    return 2;
  }
  rannc::fuzz::Random random(kGeneratorSeed);
  long accepted = 0;
  for (long i = 0; i < runs; ++i) accepted += feed(mutated(seeds, random), record);
  std::fclose(record);
  std::remove(record_path.c_str());
  std::printf("%zu seeds; of %ld mutations %ld were accepted, the others ended in a diagnostic\n", seeds.size(), runs,
              accepted);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "usage: %s RUNS SEED-FILE... [--also FOLDER]\n", arguments[0]);
    return 2;
  }
  std::vector<std::string> seeds;
  for (int i = 2; i < count; ++i) {
    if (std::string_view(arguments[i]) == "--also" && i + 1 < count) {
      add_folder(arguments[++i], seeds);
      continue;
    }
    const auto seed = read(arguments[i]);
    if (!seed) {
      std::fprintf(stderr, "%s: cannot be read\n", arguments[i]);
      return 2;
    }
    allow_more_time();
    if (!rannc::fuzz::feed(*seed)) {
      std::fprintf(stderr, "%s: a seed is not accepted\n", arguments[i]);
      return 1;
    }
    seeds.push_back(*seed);
  }
  return run(arguments[0], std::atol(arguments[1]), seeds);
}
