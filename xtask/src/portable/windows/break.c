/* Starts the program of the arguments in a group of its own, sends it Ctrl-Break when there is a file `go`, and exits
   with its exit code. */
#include <string.h>
#include <windows.h>

int main(int argc, char **argv)
{
    STARTUPINFOA startup = {.cb = sizeof startup};
    PROCESS_INFORMATION process;
    char command[4096] = "";
    DWORD code = 1;
    for (int i = 1; i < argc; i++) {
        strcat(command, argv[i]);
        strcat(command, " ");
    }
    if (!GetConsoleCP() && !AllocConsole())
        return 2;
    if (!CreateProcessA(NULL, command, NULL, NULL, TRUE, CREATE_NEW_PROCESS_GROUP, NULL, NULL, &startup, &process))
        return 3;
    while (GetFileAttributesA("go") == INVALID_FILE_ATTRIBUTES)
        Sleep(50);
    if (!GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, process.dwProcessId))
        return 4;
    WaitForSingleObject(process.hProcess, 30000);
    GetExitCodeProcess(process.hProcess, &code);
    return code;
}
