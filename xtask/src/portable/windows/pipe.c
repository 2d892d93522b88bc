/* A Docker Engine with one container, on a named pipe. The name of the pipe is the argument. */
#include <stdio.h>
#include <string.h>
#include <windows.h>

static const char *answer(const char *request)
{
    if (strstr(request, "/containers/json"))
        return "[{\"Id\":\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\","
               "\"Names\":[\"/over-the-pipe\"],\"Image\":\"busybox\",\"ImageID\":\"sha256:00\",\"Command\":\"sh\","
               "\"Created\":1700000000,\"Ports\":[],\"Labels\":{},\"State\":\"running\",\"Status\":\"Up\","
               "\"HostConfig\":{\"NetworkMode\":\"bridge\"},\"NetworkSettings\":{\"Networks\":{}},\"Mounts\":[]}]";
    return "{\"ApiVersion\":\"1.47\",\"MinAPIVersion\":\"1.24\",\"Version\":\"27.0.0\",\"Os\":\"linux\",\"Arch\":\"amd64\"}";
}

/* Requests without a body, one after the other. */
static DWORD WINAPI serve(void *pipe)
{
    char request[16384], head[256];
    DWORD length = 0, count;
    while (length < sizeof request - 1 &&
           ReadFile(pipe, request + length, sizeof request - 1 - length, &count, NULL)) {
        length += count;
        request[length] = 0;
        if (!strstr(request, "\r\n\r\n"))
            continue;
        const char *body = answer(request);
        snprintf(head, sizeof head,
                 "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nApi-Version: 1.47\r\nContent-Length: %d\r\n\r\n",
                 (int)strlen(body));
        if (!WriteFile(pipe, head, strlen(head), &count, NULL) ||
            !WriteFile(pipe, body, strlen(body), &count, NULL))
            break;
        length = 0;
    }
    CloseHandle(pipe);
    return 0;
}

int main(int argc, char **argv)
{
    (void)argc;
    for (;;) {
        HANDLE pipe = CreateNamedPipeA(argv[1], PIPE_ACCESS_DUPLEX, PIPE_TYPE_BYTE | PIPE_WAIT,
                                       PIPE_UNLIMITED_INSTANCES, 65536, 65536, 0, NULL);
        if (pipe == INVALID_HANDLE_VALUE)
            return 1;
        if (ConnectNamedPipe(pipe, NULL) || GetLastError() == ERROR_PIPE_CONNECTED)
            CreateThread(NULL, 0, serve, pipe, 0, NULL);
        else
            CloseHandle(pipe);
    }
}
