// Entry point of a program, which calls the function RANNC_MAIN.
#include "tools/common/end_process.h"
#include "tools/common/programs.h"

int main(int argc, char** argv) { rannc::tools::end_process(rannc::tools::RANNC_MAIN(argc, argv)); }
