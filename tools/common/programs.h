/// Declares the programs as functions.
#pragma once

namespace rannc::tools {

/// Each function takes a command line that starts with the program's name, prints to the standard streams and returns
/// the exit code. None keeps state between calls, so one process may run many of them, but only one at a time: the
/// handler of Ctrl-C belongs to the process.
int check_main(int argc, char** argv);
int compile_main(int argc, char** argv);
int opt_main(int argc, char** argv);
int profile_main(int argc, char** argv);
/// A worker's settings (threads, retention of freed memory) persist in the process. Workers execute this program.
int run_main(int argc, char** argv);
/// `run_main` whose workers are forks (`Fleet::main`).
int forking_run_main(int argc, char** argv);
/// Recognises its bundle and stage from the path of the running executable.
int stage_main(int argc, char** argv);
int zoo_main(int argc, char** argv);

}  // namespace rannc::tools
