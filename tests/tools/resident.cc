// Runs command lines of the programs in forks of itself, so that tests load LibTorch once.
//
// Reads an object a line, {"program": "rannc-compile", "arguments": ["model.onnx"], "stdout": PATH, "stderr": PATH},
// and answers each with the exit code of the run; -N: signal N ended it. The files receive what the program prints.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/common/end_process.h"
#include "tools/common/programs.h"

namespace {

using Main = int (*)(int, char**);
using nlohmann::json;

const std::map<std::string, Main> kPrograms = {
    {"rannc-check", rannc::tools::check_main}, {"rannc-compile", rannc::tools::compile_main},
    {"rannc-opt", rannc::tools::opt_main},     {"rannc-run", rannc::tools::forking_run_main},
    {"rannc-zoo", rannc::tools::zoo_main},
};

void redirect(int descriptor, const std::string& path, int flags) {
  const int file = open(path.c_str(), flags, 0600);
  if (file < 0 || dup2(file, descriptor) < 0) _exit(127);
  close(file);
}

int run(Main program, std::vector<std::string> words, const json& request) {
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    redirect(STDIN_FILENO, "/dev/null", O_RDONLY);
    redirect(STDOUT_FILENO, request.at("stdout"), O_WRONLY | O_CREAT | O_TRUNC);
    redirect(STDERR_FILENO, request.at("stderr"), O_WRONLY | O_CREAT | O_TRUNC);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    rannc::tools::end_process(program(static_cast<int>(words.size()), arguments.data()));
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return 127;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const json request = json::parse(line);
    std::vector<std::string> words = request.at("arguments");
    words.insert(words.begin(), request.at("program"));
    const Main program = kPrograms.at(words.front());
    std::printf("%d\n", run(program, std::move(words), request));
    std::fflush(stdout);
  }
  return 0;
}
