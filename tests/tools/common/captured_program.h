/// Runs a program within the process of a test.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rannc::tools {

struct Captured {
  int code = 0;
  std::string printed, complained;  ///< standard output, standard error
};

inline Captured run_captured(int (*program)(int, char**), std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Captured done;
  done.code = program(static_cast<int>(words.size()), arguments.data());
  std::fflush(stdout);
  done.printed = ::testing::internal::GetCapturedStdout();
  done.complained = ::testing::internal::GetCapturedStderr();
  return done;
}

}  // namespace rannc::tools
