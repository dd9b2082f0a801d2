/// The programs as functions.
#pragma once

namespace rannc::tools {

/// Each takes a command line with the program's name first, prints to the standard streams and returns the exit code.
/// They keep no state between calls, so that one process may run many; one at a time, since Ctrl-C is the process's.
int check_main(int argc, char** argv);
int compile_main(int argc, char** argv);
int opt_main(int argc, char** argv);
/// A worker's limits (threads, how freed memory is kept) stay the process's. Only as rannc-run it can launch workers.
int run_main(int argc, char** argv);
int zoo_main(int argc, char** argv);

}  // namespace rannc::tools
