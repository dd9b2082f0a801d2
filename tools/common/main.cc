// Entry point of a program, which calls the function RANNC_MAIN.
#include "tools/common/programs.h"

int main(int argc, char** argv) { return rannc::tools::RANNC_MAIN(argc, argv); }
