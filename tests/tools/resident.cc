// Runs command lines of the programs one after another, so that tests load LibTorch once.
//
// Reads an object a line, {"program": "rannc-compile", "arguments": ["model.onnx"]}, and answers each with a line:
// {"code": 1, "stdout": "…", "stderr": "…"}. What a program prints is caught by descriptor, so that nothing is missed.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/common/programs.h"

namespace {

using Main = int (*)(int, char**);
using nlohmann::json;

const std::map<std::string, Main> kPrograms = {
    {"rannc-check", rannc::tools::check_main}, {"rannc-compile", rannc::tools::compile_main},
    {"rannc-opt", rannc::tools::opt_main},     {"rannc-run", rannc::tools::run_main},
    {"rannc-zoo", rannc::tools::zoo_main},
};

/// Sends a descriptor to a nameless file until it is asked for what came.
class Caught {
 public:
  explicit Caught(int descriptor) : descriptor_(descriptor), kept_(dup(descriptor)), file_(std::tmpfile()) {
    dup2(fileno(file_), descriptor_);
  }
  Caught(const Caught&) = delete;
  Caught& operator=(const Caught&) = delete;
  ~Caught() { std::fclose(file_); }

  std::string end() {
    std::fflush(nullptr);
    std::cout.flush();
    dup2(kept_, descriptor_);
    close(kept_);
    std::string text(static_cast<size_t>(lseek(fileno(file_), 0, SEEK_END)), '\0');
    const ssize_t read = pread(fileno(file_), text.data(), text.size(), 0);
    text.resize(read > 0 ? static_cast<size_t>(read) : 0);
    return text;
  }

 private:
  int descriptor_, kept_;
  std::FILE* file_;
};

json run(Main program, std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  Caught out(STDOUT_FILENO), err(STDERR_FILENO);
  const int code = program(static_cast<int>(words.size()), arguments.data());
  return {{"code", code}, {"stdout", out.end()}, {"stderr", err.end()}};
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const json request = json::parse(line);
    std::vector<std::string> words = request.at("arguments");
    words.insert(words.begin(), request.at("program"));
    const Main program = kPrograms.at(words.front());
    const json answer = run(program, std::move(words));
    std::puts(answer.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
    std::fflush(stdout);
  }
  return 0;
}
