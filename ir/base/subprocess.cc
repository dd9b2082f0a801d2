#include "ir/base/subprocess.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "ir/base/replacement.h"

extern char** environ;

namespace rannc {

Result<Ended> run_program(const std::vector<std::string>& command, const std::string& output) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  pid_t process = 0;
  const int failed = posix_spawn(&process, words[0], &files, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) return error({.file = command[0]}, std::string("cannot be started: ") + std::strerror(failed));
  int status = 0;
  while (waitpid(process, &status, 0) < 0) {
    if (errno != EINTR) return error({.file = command[0]}, std::string("cannot be awaited: ") + std::strerror(errno));
  }
  RANNC_ASSIGN(std::string printed, read_file(output));
  return Ended{WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), std::move(printed)};
}

}  // namespace rannc
