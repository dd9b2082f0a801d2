// Replaces a header that c10d includes only for the declarations of the context.
#pragma once

#include <gloo/context.h>
