#include "tools/run/run_worker.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

#include "tools/common/driver.h"
#include "tools/common/report_pipe.h"
#include "tools/common/standard_streams.h"
#include "tools/common/truncated_files.h"

namespace rannc::tools {

namespace {

void say(const WorkerEnvironment& worker, const Diagnostic& why) {
  if (worker.report_pipe < 0) {
    fmt::print(stderr, "[worker {}] {}\n", worker.rank, why.str());
    return;
  }
  report_failure(worker.report_pipe, worker_report(why, worker.rank));
}

}  // namespace

std::string worker_report(const Diagnostic& why, uint32_t rank) {
  constexpr std::string_view kWord = "error: ";
  std::string text = why.str();
  if (const size_t at = text.find(kWord); at != std::string::npos) text.erase(at, kWord.size());
  return why.message.starts_with("worker ") ? text : fmt::format("worker {}: {}", rank, text);
}

void run_as_worker(const WorkerEnvironment& worker, const std::function<Result<void>()>& body) {
  if (worker.report_pipe >= 0) report_truncated_files(worker.report_pipe, fmt::format("worker {}: ", worker.rank));
  try {
    Result<void> result = body();
    if (result.ok()) result = check_standard_output();
    if (result.ok()) return;
    std::fflush(stdout);
    say(worker, result.diagnostic());
  } catch (const Exit&) {
    throw;
  } catch (const Error& failure) {
    say(worker, failure.diagnostic());
  } catch (const std::exception& failure) {
    say(worker,
        error(fmt::format("internal error: {}\nThis is a defect of rannc: please report it with the command line.",
                          failure.what())));
    throw Exit{kInternal};
  }
  throw Exit{kDiagnostics};
}

}  // namespace rannc::tools
